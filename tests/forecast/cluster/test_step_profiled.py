"""A profile becomes work and prices, by what it holds."""

import pytest
from step_model_cases import ahead, cluster

from steptune.core.estimate import Estimate, Source
from steptune.core.phase import Role, SpanKind
from steptune.core.profile import (
    CostCurve,
    CurvePoint,
    PhaseTime,
    Profile,
    RoleProfile,
    SampledLengths,
    SummaryLengths,
    WorkSignature,
)
from steptune.forecast.cluster.profiled import parameters_of, totals_of, work_of
from steptune.forecast.cluster.sides import Sides
from steptune.forecast.cluster.step import forecast_step, step_seconds
from steptune.forecast.curve import ForecastError


def seconds(value: float) -> Estimate:
    return Estimate(value=value, unit="s", source=Source.MEASURED)


def span(role: Role, phase: str, value: float, kind: SpanKind = SpanKind.BUSY) -> PhaseTime:
    return PhaseTime(role=role, phase=phase, kind=kind, seconds=seconds(value))


def profile(*, costs: tuple[CostCurve, ...] = (), lengths: SampledLengths | SummaryLengths | None = None) -> Profile:
    """Generation 6 s, training 3 s and log-probs 1 s, weights 0.5 s, and 0.5 s that nothing explains."""
    trainer = (
        span(Role.TRAINER, "train", 3),
        span(Role.TRAINER, "old_logprob", 1),
        span(Role.TRAINER, "weight_sync", 0.5),
        span(Role.TRAINER, "rollout", 6, SpanKind.EXPOSED_WAIT),
    )
    return Profile(
        framework="any",
        settings={"threads": 1},
        work=WorkSignature(prompts_per_step=4, group_size=2, max_completion_len=64),
        step_time=seconds(11),
        roles=(
            RoleProfile(role=Role.TRAINER, wall_s=11, phases=trainer),
            RoleProfile(role=Role.ROLLOUT, wall_s=11, phases=(span(Role.ROLLOUT, "rollout", 6),)),
        ),
        lengths=lengths
        or SampledLengths(prompt=(4,) * 8, completion=(10, 20, 30, 40, 15, 25, 35, 5), rollouts_per_step=8),
        costs=costs,
        num_steps=8,
    )


def curve(name: str, unit: str, *points: tuple[float, float]) -> CostCurve:
    return CostCurve(
        name=name, when={"threads": 1}, unit=unit, points=tuple(CurvePoint(x=x, seconds=s) for x, s in points)
    )


CURVES = (
    curve("decode", "rows", (1, 0.01), (8, 0.02)),
    curve("prefill", "tokens", (8, 0.01), (64, 0.04)),
    curve("train", "tokens", (64, 0.1), (256, 0.3)),
    curve("optimizer", "updates", (1, 0.05)),
)


@pytest.mark.parametrize("costs", [(), CURVES])
def test_the_profiled_step_is_given_back(costs: tuple[CostCurve, ...]) -> None:
    made = profile(costs=costs)
    work = work_of(made, seed=0)
    parameters = parameters_of(made, work, cluster(2, 2))
    forecast = forecast_step(Sides(parameters=parameters, work=work), cluster(2, 2))
    assert forecast.step_s == pytest.approx(11)
    assert forecast.low_s < 11 < forecast.high_s


def test_what_no_side_explains_is_carried() -> None:
    totals = totals_of(profile())
    assert (totals.rollout_s, totals.train_s, totals.sync_s, totals.carried_s) == (6, 4, 0.5, 0.5)


def test_probed_curves_know_what_a_total_does_not() -> None:
    made = profile(costs=CURVES)
    work = work_of(made, seed=0)
    probed, told = (parameters_of(p, work, cluster(2, 2)) for p in (made, profile()))
    assert probed.num_free > told.num_free
    assert probed.train_reference is None
    assert told.train_reference is not None
    assert told.rollout_log_sd > probed.rollout_log_sd


def test_overlapping_the_profiled_sides_is_forecast_to_win() -> None:
    made = profile()
    work = work_of(made, seed=0)
    sides = Sides(parameters=parameters_of(made, work, cluster(2, 2)), work=work)
    # the longer side, 6 s, and half a second of weights; nothing hides what comes after training
    assert step_seconds(sides, cluster(2, 2, ahead(2))) < 8


def test_a_summary_of_lengths_widens_the_interval() -> None:
    summary = SummaryLengths(prompt_mean=4, completion_mean=22, completion_max=40, clipped_frac=0.0)
    # eight steps of the same: eight rollouts alone know less of their job than a mean and a maximum of many
    sampled = SampledLengths(prompt=(4,) * 64, completion=(10, 20, 30, 40, 15, 25, 35, 5) * 8, rollouts_per_step=8)
    spread = []
    for lengths in (sampled, summary):
        made = profile(lengths=lengths)
        work = work_of(made, seed=0)
        forecast = forecast_step(Sides(parameters=parameters_of(made, work, cluster(2, 2)), work=work), cluster(2, 2))
        spread.append(forecast.high_s / forecast.low_s)
    assert spread[1] > 1.1 * spread[0]


def test_rollouts_per_step_must_be_known() -> None:
    made = profile(lengths=SummaryLengths(completion_mean=20)).model_copy(update={"work": WorkSignature()})
    with pytest.raises(ForecastError, match="configuration beside its log"):
        work_of(made, seed=0)
