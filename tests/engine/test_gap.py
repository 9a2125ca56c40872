import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from steptune.engine.gap import gap_by_lag, gap_stats

LOGPROBS = st.lists(st.tuples(st.floats(-20, 0), st.floats(-20, 0)), min_size=1, max_size=30)


@given(pairs=LOGPROBS)
def test_identical_logprobs_have_no_gap(pairs: list[tuple[float, float]]) -> None:
    same = torch.tensor([a for a, _ in pairs])
    gap = gap_stats(same, same, torch.ones(len(pairs), dtype=torch.bool))
    assert gap is not None
    assert (gap.k1, gap.k3, gap.mean_abs, gap.max_abs) == (0, 0, 0, 0)
    assert (gap.mult_prob_error, gap.ess_frac, gap.num_tokens) == (1, pytest.approx(1), len(pairs))


@given(pairs=LOGPROBS)
def test_k3_is_never_negative_and_the_sample_size_is_a_share(pairs: list[tuple[float, float]]) -> None:
    trainer, rollout = torch.tensor(pairs, dtype=torch.float64).unbind(1)
    gap = gap_stats(trainer, rollout, torch.ones(len(pairs), dtype=torch.bool))
    assert gap is not None
    assert gap.k3 >= 0
    assert 0 < gap.ess_frac <= 1 + 1e-12
    assert gap.mult_prob_error >= 1
    assert gap.max_abs >= gap.mean_abs >= abs(gap.k1) - 1e-12


def test_the_statistics_of_two_tokens_are_those_done_by_hand() -> None:
    # deltas +ln 2 and 0, weights 2 and 1: k3 = (2 - 1 - ln 2)/2, ess = (3 * 3) / (2 * 5)
    gap = gap_stats(
        torch.tensor([-1.0 + math.log(2), -3.0, 7.0]), torch.tensor([-1.0, -3.0, 0.0]), torch.tensor([1, 1, 0]) == 1
    )
    assert gap is not None
    assert gap.k1 == pytest.approx(-math.log(2) / 2, abs=1e-6)
    assert gap.k3 == pytest.approx((1 - math.log(2)) / 2, abs=1e-6)
    assert gap.mult_prob_error == pytest.approx(1.5, abs=1e-6)
    assert gap.ess_frac == pytest.approx(0.9, abs=1e-6)
    assert gap.max_abs == pytest.approx(math.log(2), abs=1e-6)
    assert gap.num_tokens == 2


def test_k3_agrees_with_the_reference_engines() -> None:
    # verl's estimates of KL(cur || ref) on the reference case of test_algorithms_reference.py
    i, j = torch.arange(8)[:, None], torch.arange(6)[None, :]
    cur = -(0.3 + 0.17 * ((3 * i + 5 * j) % 7).double())
    ref = cur + 0.09 * (((i + 4 * j) % 5) - 2).double()
    gap = gap_stats(ref, cur, j < torch.tensor([6, 4, 5, 2, 3, 6, 1, 4])[:, None])
    assert gap is not None
    assert gap.k1 == pytest.approx(0.005806452, abs=1e-9)
    assert gap.mean_abs == pytest.approx(0.110322581, abs=1e-9)
    assert gap.k3 == pytest.approx(0.008349306, abs=1e-9)


def test_an_empty_mask_has_no_gap() -> None:
    assert gap_stats(torch.zeros(3), torch.zeros(3), torch.zeros(3, dtype=torch.bool)) is None


@pytest.mark.parametrize("broken", [math.nan, -math.inf])
def test_a_broken_logprob_makes_every_mean_fail_to_be_finite(broken: float) -> None:
    gap = gap_stats(torch.tensor([broken, -1.0]), torch.tensor([-1.0, -1.0]), torch.tensor([True, True]))
    assert gap is not None
    assert not any(map(math.isfinite, (gap.k1, gap.k3, gap.mean_abs, gap.max_abs, gap.mult_prob_error)))


def test_tokens_are_told_apart_by_the_age_of_their_weights() -> None:
    versions = torch.tensor([[7, 7, 6], [6, -1, -1]], dtype=torch.int32)
    mask = versions >= 0
    trainer = torch.tensor([[0.0, 0.0, 1.0], [3.0, 9.0, 9.0]])
    stats = gap_by_lag(trainer, torch.zeros(2, 3), mask, versions, trainer_version_B=torch.tensor([7, 7]))
    assert [(s.lag, s.gap.num_tokens, s.gap.k1) for s in stats] == [(0, 2, 0.0), (1, 2, -2.0)]
    # the second row is trained one update later
    later = gap_by_lag(trainer, torch.zeros(2, 3), mask, versions, trainer_version_B=torch.tensor([7, 8]))
    assert [(s.lag, s.gap.num_tokens, s.gap.k1) for s in later] == [(0, 2, 0.0), (1, 1, -1.0), (2, 1, -3.0)]
