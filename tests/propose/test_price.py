import pytest
from propose_cases import change, ranked

from steptune.core.job import LimitsSpec
from steptune.propose.price import price_of_limits, relaxations

LIMITS = LimitsSpec(max_staleness=0, allow_corrections=False, memory_headroom_frac=0.2)


def test_each_limit_is_loosened_by_one_notch_alone() -> None:
    loosened = relaxations(LIMITS)
    assert [(r.limit, r.now, r.relaxed) for r in loosened] == [
        ("max_staleness", "0", "1"),
        ("allow_corrections", "false", "true"),
        ("memory_headroom_frac", "0.2", "0.1"),
    ]
    assert loosened[0].limits == LimitsSpec(max_staleness=1, allow_corrections=False, memory_headroom_frac=0.2)
    assert loosened[1].limits == LimitsSpec(max_staleness=0, allow_corrections=True, memory_headroom_frac=0.2)


def test_a_limit_that_is_as_loose_as_it_gets_has_no_price() -> None:
    loose = LimitsSpec(allow_corrections=True, memory_headroom_frac=0)
    assert [r.limit for r in relaxations(loose)] == ["max_staleness"]


def test_the_price_is_best_allowed_over_best_blocked() -> None:
    staleness, corrections, _ = relaxations(LIMITS)
    allowed = [ranked(0.8, change(a=1)), ranked(0.9, change(a=2))]
    blocked = [ranked(0.5, change(b=1)), ranked(0.6, change(b=2))]
    prices = price_of_limits(allowed, [(staleness, blocked), (corrections, [])])
    assert [(p.limit, p.now, p.relaxed) for p in prices] == [("max_staleness", "0", "1")]
    gain = prices[0].gain
    # 0.8 / 0.5, each end 5 % out either way
    assert (gain.value, gain.low, gain.high) == pytest.approx((1.6, 1.6 / 1.05**2, 1.6 * 1.05**2))


def test_a_limit_that_blocks_nothing_faster_costs_nothing() -> None:
    (price,) = price_of_limits([ranked(0.5, change(a=1))], [(relaxations(LIMITS)[0], [ranked(0.7, change(b=1))])])
    assert price.gain.value == 1.0


def test_where_nothing_is_allowed_the_price_is_against_the_baseline() -> None:
    (price,) = price_of_limits([], [(relaxations(LIMITS)[0], [ranked(0.5, change(b=1))])])
    assert price.gain.value == 2.0
