import pytest

from steptune.core.estimate import Estimate, Source
from steptune.core.job import LimitsSpec
from steptune.core.profile import GapStats, NoiseFloor
from steptune.core.trial import Observation
from steptune.testing.fake_step import fake_gap, fake_observation
from steptune.trial.blocks import Pair
from steptune.tune.stop_rule import StopRule

NOISE = NoiseFloor(
    within_launch_cv=0.01,
    between_launch_frac=0.01,
    aa_ratio=Estimate(value=1.0, low=0.99, high=1.01, unit="x", source=Source.DERIVED),
    num_steps=24,
)


def rule(*, max_staleness: int = 0, own_lag: int = 0) -> StopRule:
    limits = LimitsSpec(max_staleness=max_staleness, max_mismatch_k3=1e-3)
    return StopRule(limits=limits, own_lag=own_lag, noise=NOISE, max_looks=3)


def step(seconds: float, *, lag: int = 0, gap: GapStats | None = None) -> Observation:
    made = fake_observation(0, seconds / 2, seconds / 2, is_off=False)
    return made.model_copy(update={"lag_max": lag, "mismatch": gap})


def pair(ratio: float, **more: object) -> Pair:
    candidate = tuple(step(ratio, **more) for _ in range(3))  # type: ignore[arg-type]
    return Pair(incumbent=tuple(step(1.0) for _ in range(3)), candidate=candidate)


def test_a_fast_candidate_goes_on() -> None:
    assert rule()([pair(0.8), pair(0.82), pair(0.79)]) is None


def test_a_hopeless_candidate_is_stopped_after_two_pairs_but_not_after_one() -> None:
    slow = [pair(1.30), pair(1.31)]
    assert rule()(slow[:1]) is None
    assert "cannot win any more" in (rule()(slow) or "")


def test_a_candidate_that_could_still_win_goes_on() -> None:
    assert rule()([pair(0.90), pair(1.10)]) is None


@pytest.mark.parametrize(("k3", "stops"), [(9e-4, False), (2e-3, True)])
def test_a_broken_mismatch_limit_stops_at_the_first_pair(k3: float, stops: bool) -> None:
    cause = rule()([pair(0.5, gap=fake_gap(k3))])
    assert (cause is not None) is stops
    if stops:
        assert cause == "breaks limits.max_mismatch_k3: 0.002 nat, allowed 0.001"


def test_a_missing_mismatch_is_left_to_the_guard() -> None:
    assert rule()([pair(0.5)]) is None


@pytest.mark.parametrize(
    ("lag", "max_staleness", "own_lag", "stops"),
    [(0, 0, 0, False), (1, 0, 0, True), (1, 1, 0, False), (3, 0, 3, False), (3, 0, 2, True)],
)
def test_staleness_beyond_the_algorithm_s_own_is_held_to_the_owner_s_limit(
    lag: int, max_staleness: int, own_lag: int, stops: bool
) -> None:
    cause = rule(max_staleness=max_staleness, own_lag=own_lag)([pair(0.5, lag=lag)])
    assert (cause is not None) is stops
    if cause is not None:
        assert cause.startswith(f"breaks limits.max_staleness: {lag - own_lag} updates")
