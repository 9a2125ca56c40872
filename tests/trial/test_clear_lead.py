import math

from steptune.core.estimate import Estimate, Source
from steptune.core.framework import LaunchSpec
from steptune.core.job import JobSpec
from steptune.core.knob import KnobValue
from steptune.core.profile import NoiseFloor
from steptune.core.trial import Observation
from steptune.testing.fake_framework import FakeFramework, FakeSession
from steptune.trial.blocks import Pair
from steptune.trial.clear_lead import ClearLead, clear_gain_frac, is_clear_loss

AA = Estimate(value=1.0, low=0.98, high=1.02, unit="x", source=Source.MEASURED)


def lead(within: float = 0.03, between: float = 0.01) -> ClearLead:
    noise = NoiseFloor(within_launch_cv=within, between_launch_frac=between, aa_ratio=AA, num_steps=24)
    return ClearLead(noise=noise, band_frac=0.05)


def pairs(*ratios: float, num_steps: int = 3) -> list[Pair]:
    step = a_second()
    return [
        Pair(
            incumbent=tuple(step for _ in range(num_steps)),
            candidate=tuple(step.model_copy(update={"step_time_s": ratio}) for _ in range(num_steps)),
        )
        for ratio in ratios
    ]


def a_second() -> Observation:
    settings: dict[str, KnobValue] = {"layout": "padded", "compact_finished": False}
    spec = LaunchSpec(settings=settings, seed=1)
    job = JobSpec(name="fake", framework="fake")
    return FakeSession(framework=FakeFramework(noise=0.0), job=job, spec=spec, number=1).run_steps(1)[0]


def test_a_large_gain_is_clear_after_two_pairs_and_not_after_one() -> None:
    assert lead()(pairs(0.6, 0.62))
    assert not lead()(pairs(0.6))


def test_the_gain_must_exceed_band_and_spread_together() -> None:
    # spread of 2 x 3 steps: hypot(0.03 x sqrt(2 / 6), 0.01) = 0.02; needed: 0.0513 + 3 x 0.02 = 0.111 of the log
    assert lead()(pairs(math.exp(-0.113), math.exp(-0.113)))
    assert not lead()(pairs(math.exp(-0.109), math.exp(-0.109)))


def test_more_pairs_show_smaller_gains_but_never_below_the_spread_between_launches() -> None:
    small = math.exp(-0.095)
    assert not lead()(pairs(small, small))
    assert lead()(pairs(*[small] * 8))
    assert not lead(between=0.02)(pairs(*[small] * 100))


def test_a_broken_time_or_floor_is_never_clear() -> None:
    assert not lead()(pairs(0.5, math.nan))
    assert not lead(within=math.nan)(pairs(0.5, 0.5))


def test_a_loss_is_no_lead() -> None:
    assert not lead()(pairs(1.5, 1.4))


def lost(*ratios: float, within: float = 0.03) -> bool:
    return is_clear_loss(pairs(*ratios), lead(within).noise, worth_frac=0.01)


def test_a_loss_is_clear_once_it_lies_three_spreads_above_the_least_gain() -> None:
    # spread 0.02 as above; lost from -0.01 + 0.06 = +0.05 of the log on
    assert lost(math.exp(0.052), math.exp(0.052))
    assert not lost(math.exp(0.048), math.exp(0.048))
    assert not lost(1.5)


def test_pairs_further_apart_than_the_repeat_s_are_not_taken_for_a_clear_loss() -> None:
    # mean +0.09 of the log, but 0.9 and 1.33 say nothing of where it will end
    assert lost(1.09, 1.10)
    assert not lost(0.9, 1.33)


def test_a_broken_time_or_floor_is_no_clear_loss() -> None:
    assert not lost(1.5, math.nan)
    assert not lost(1.5, 1.5, within=math.nan)


def test_the_gain_that_two_pairs_settle_is_where_their_lead_becomes_clear() -> None:
    smallest = clear_gain_frac(lead().noise, 0.05, kept_steps=3)
    assert lead()(pairs(1 - smallest - 0.001, 1 - smallest - 0.001))
    assert not lead()(pairs(1 - smallest + 0.001, 1 - smallest + 0.001))
