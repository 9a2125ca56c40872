"""A profile of any framework into work and prices: measured curves where it has them, else one total per side.

A framework that probes its primitives (the embedded engine) gives the shape of the curves, its spans give their scale;
a pasted log gives totals only. The surprise: what an asynchronous trainer books as `rollout` is a wait, not
generation, so waits are never read here, and a profile without busy generation is refused.
"""

from collections.abc import Sequence
from dataclasses import replace

from steptune.core.errors import explain
from steptune.core.estimate import Source
from steptune.core.phase import Phase, Role
from steptune.core.profile import CostCurve, Profile, SampledLengths
from steptune.forecast.calibrate import measured_busy
from steptune.forecast.cluster.calibrate import line
from steptune.forecast.cluster.decode import curve_from_costs
from steptune.forecast.cluster.lengths import work_from_samples, work_from_summary
from steptune.forecast.cluster.parameters import Parameter, StepParameters
from steptune.forecast.cluster.rollout_knobs import RolloutCosts
from steptune.forecast.cluster.sides import Cluster
from steptune.forecast.cluster.totals import Totals, parameters_from_totals, scaled_to
from steptune.forecast.cluster.train_side import TrainCosts
from steptune.forecast.cluster.work import Work
from steptune.forecast.curve import ForecastError, find_curve

DRAWN_STEPS = 8
"""Steps drawn where lengths are not known one by one."""

TRAINING = (Phase.TRAIN, Phase.OLD_LOGPROB, Phase.REF_LOGPROB)
"""Phases that scale as training does: passes over the same rows."""


def work_of(profile: Profile, *, seed: int) -> Work:
    """Return the profile's lengths as work, by what is known of them.

    Raises:
        ForecastError: prompts per step or group size are not stated, or the lengths do not say enough.
    """
    prompts, size = profile.work.prompts_per_step, profile.work.group_size
    limit = profile.work.max_completion_len
    if size is not None and isinstance(profile.lengths, SampledLengths):
        return work_from_samples(profile.lengths, group_size=size, max_completion=limit)
    if prompts is None or size is None or isinstance(profile.lengths, SampledLengths):
        raise ForecastError(
            explain(
                "the profile does not say how many rollouts a step has",
                got=f"{prompts} prompts in groups of {size}",
                allowed="both known",
                hint="give the job's configuration beside its log",
            )
        )
    return work_from_summary(
        profile.lengths, groups_per_step=prompts, group_size=size, limit=limit, num_steps=DRAWN_STEPS, seed=seed
    )


def totals_of(profile: Profile) -> Totals:
    """Return busy seconds per step by side; what no side explains of a synchronous step is carried."""
    busy_s = measured_busy(profile)
    rollout_s = busy_s.get((Role.ROLLOUT, Phase.ROLLOUT.value), 0.0)
    train_s = sum(busy_s.get((Role.TRAINER, phase.value), 0.0) for phase in TRAINING)
    sync_s = max((s for (_, phase), s in busy_s.items() if phase == Phase.WEIGHT_SYNC), default=0.0)
    switch_s = max((s for (_, phase), s in busy_s.items() if phase == Phase.MODE_SWITCH), default=0.0)
    rest_s = profile.step_time.value - rollout_s - train_s - sync_s - switch_s
    carried_s = max(rest_s, 0.0) if profile.schedule == "sync" else 0.0
    return Totals(rollout_s=rollout_s, train_s=train_s, sync_s=sync_s, switch_s=switch_s, carried_s=carried_s)


def parameters_of(profile: Profile, work: Work, cluster: Cluster) -> StepParameters:
    """Return the prices of the profiled configuration, in its own words ``cluster``.

    Raises:
        ForecastError: a side was not measured as busy, or the configuration cannot run.
    """
    totals = totals_of(profile)
    decode = _curve(profile, "decode")
    train = _curve(profile, "train")
    if decode is None or train is None:
        return parameters_from_totals(work, cluster, totals)
    prefill = _curve(profile, "prefill")
    prefill_base_s, prefill_per_token_s = line(_points(prefill))
    per_micro_batch_s, per_token_s = line(_points(train))
    optimizer = _curve(profile, "optimizer")
    raw = StepParameters(
        rollout=RolloutCosts(
            decode=curve_from_costs(decode), prefill_base_s=prefill_base_s, prefill_per_token_s=prefill_per_token_s
        ),
        train=TrainCosts(
            per_token_s=per_token_s,
            per_micro_batch_s=per_micro_batch_s,
            per_update_s=optimizer.points[0].seconds if optimizer is not None else 0.0,
        ),
    )
    made = scaled_to(raw, work, cluster, totals)
    return replace(made, listed=(*made.listed, *_shapes([c for c in (decode, prefill, train, optimizer) if c])))


def _curve(profile: Profile, name: str) -> CostCurve | None:
    """Return the curve measured under the profile's own settings; None where none was."""
    try:
        found = find_curve(profile.costs, name, profile.settings)
    except ForecastError:
        return None
    return found if found.points else None


def _points(curve: CostCurve | None) -> list[tuple[float, float]]:
    return [] if curve is None else [(p.x, p.seconds) for p in curve.points]


def _shapes(curves: Sequence[CostCurve]) -> list[Parameter]:
    return [
        Parameter(
            name=f"{c.name} at {p.x:g} {c.unit}", value=p.seconds, unit="s", source=Source.MEASURED, where="probe"
        )
        for c in curves
        for p in c.points
    ]
