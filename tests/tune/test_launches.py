import itertools
from collections.abc import Iterator

import pytest

from steptune.stats.looks import CONFIRM_LOOKS
from steptune.testing.fake_step import fake_observation
from steptune.tune.launches import Blocks, confirm_launches, launch_ratio, steps_of

WEIGHTS = [1.0, 1.0]


def blocks(ratio: float) -> Blocks:
    """One launch: two blocks of two steps an arm; the winner takes ``ratio`` of the baseline's second."""
    return [
        [tuple(fake_observation(i, seconds, 0.0, is_off=False) for i in range(2)) for _ in range(2)]
        for seconds in (1.0, ratio)
    ]


def launched(ratios: Iterator[float], *, left_s: float = 1e9) -> list[Blocks]:
    seconds = itertools.count(0.0, 10.0)
    return confirm_launches(lambda _number: blocks(next(ratios)), WEIGHTS, lambda: left_s, lambda: next(seconds))


@pytest.mark.parametrize("ratios", [(0.5, 0.51, 0.49), (2.0, 2.1, 1.9), (1.0, 1.0001, 0.9999)])
def test_a_clear_answer_ends_it_at_the_first_look_whichever_way(ratios: tuple[float, ...]) -> None:
    assert len(launched(itertools.cycle(ratios))) == CONFIRM_LOOKS.first


def test_an_unclear_one_uses_every_look() -> None:
    assert len(launched(itertools.cycle((0.8, 1.2)))) == CONFIRM_LOOKS.last


def test_the_budget_ends_it_after_the_first_look_at_the_earliest() -> None:
    assert len(launched(itertools.cycle((0.8, 1.2)), left_s=9.0)) == CONFIRM_LOOKS.first


def test_a_launch_is_one_observation_and_swapping_arms_inverts_the_ratio() -> None:
    launches = [blocks(ratio) for ratio in (0.5, 0.55, 0.45)]
    ratio, inverse = launch_ratio(launches, 0, 1, WEIGHTS), launch_ratio(launches, 1, 0, WEIGHTS)
    assert ratio.n == 3
    assert ratio.value == pytest.approx((1 / (0.5 * 0.55 * 0.45)) ** (1 / 3))
    assert inverse.low is not None
    assert ratio.high == pytest.approx(1 / inverse.low)
    assert launch_ratio(launches, 0, 1, [1.0, 0.5]).value == pytest.approx(2 * ratio.value)
    assert len(list(steps_of(launches, 1))) == 12
