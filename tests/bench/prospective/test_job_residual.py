"""What trials of a job say of its next change."""

import pytest

from prospective.job import Moves
from prospective.job_residual import Expected, Learnt, Tried, learn


def expected(moves: Moves, log_sd: float = 0.1) -> Expected:
    return Expected(moves=moves, log_sd=log_sd)


def after(*tried: tuple[Moves, float], wanted: Moves, common: float = 0.0) -> Learnt:
    seen = [Tried(expected=expected(moves), log_error=error) for moves, error in tried]
    return learn(seen, expected(wanted), common=common, noise=0.02)


def test_without_trials_the_stated_width_stands() -> None:
    assert after(wanted={"a": 1}) == Learnt(log_correction=0.0, log_sd=0.1, noise=0.02)


def test_the_same_change_is_corrected_nearly_whole_and_known_to_its_noise() -> None:
    learnt = after(({"a": 1}, 0.1), wanted={"a": 1})
    assert learnt.log_correction == pytest.approx(0.1, rel=0.05)  # 0.01 / (0.01 + 0.0004)
    assert learnt.log_sd < 0.025


def test_a_change_that_shares_nothing_is_not_corrected() -> None:
    learnt = after(({"a": 1}, 0.1), wanted={"b": 2})
    assert learnt.log_correction == 0.0
    assert learnt.log_sd == pytest.approx(0.1, rel=0.05)


def test_what_all_ratios_share_is_carried_to_every_change() -> None:
    assert after(({"a": 1}, 0.1), wanted={"b": 2}, common=0.05).log_correction > 0.01


def test_another_value_of_the_knob_counts_half() -> None:
    same, other = (after(({"a": 1}, 0.1), wanted={"a": value}).log_correction for value in (1, 3))
    assert other == pytest.approx(same / 2)


def test_large_errors_widen_what_is_not_known_and_small_ones_narrow_it() -> None:
    off, right = (after(({"a": 1}, error), wanted={"b": 2}) for error in (0.4, 0.0))
    assert right.log_sd < 0.1 < off.log_sd
    assert right.noise == 0.02 < off.noise
