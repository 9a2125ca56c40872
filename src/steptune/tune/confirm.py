"""The confirmation: baseline, best practice and winner on fresh launches that chose nothing.

The surprise: a winner that dies here is a result, an event of its own, and the session goes on without it.
"""

import time

from steptune.core.change import Change
from steptune.core.decision import Range
from steptune.core.errors import BudgetSpentError
from steptune.core.event import ConfirmationFailed, Confirmed, Profiled
from steptune.core.profile import SampledLengths
from steptune.core.trial import Arm
from steptune.core.verdict import Judgement
from steptune.forecast.forecast import forecast_change
from steptune.profile.aggregate import ProfileInputs, profile_of
from steptune.trial.arm_died import ArmDiedError
from steptune.tune.arms import Arms, arms_of, ratio_of
from steptune.tune.baseline import NOTHING
from steptune.tune.context import Context, settings_of
from steptune.tune.gather import plan_for
from steptune.tune.launches import Blocks, confirm_launches, launch_ratio, steps_of
from steptune.tune.objectives import gains
from steptune.tune.plans import CONFIRM_PLAN, RAW_PLAN
from steptune.tune.refuted import failed_text
from steptune.tune.space import Space
from steptune.tune.step_guards import guard_confirmation

WINNER = 2
"""Number of the winner's arm, after baseline and best practice."""

CONFIRM_SEED_SHIFT = 1000
"""Added to the job's seed: other problems and other noise than any trial saw."""


def confirm(context: Context, space: Space, change: Change) -> None:
    """Time baseline, best practice and winner afresh; record the gain and its range, or that the winner died.

    Raises:
        BudgetSpentError: the budget ended before there were launches enough to say anything.
        TrialError: the baseline or best practice died.
    """
    started_s = time.monotonic()
    context.runs.stop()
    context.progress.say(f"confirm: baseline, best practice and winner on fresh launches, other seeds: {change}")
    try:
        _confirm(context, space, change, started_s)
    except ArmDiedError as died:
        if died.arm != WINNER:
            raise
        wall_s = time.monotonic() - started_s
        failed = ConfirmationFailed(
            signature=change.signature,
            state=died.state,
            cause=str(died),
            cost_wall_s=wall_s,
            cost_device_s=wall_s * context.job.devices.num_cores,
        )
        context.record(failed)
        context.progress.say(f"confirm: {failed_text(failed)}")


def _confirm(context: Context, space: Space, change: Change, started_s: float) -> None:
    winner = change.applied_to(context.baseline_settings)
    best_practice = settings_of(context.started.best_practice_levers)
    settings = [context.baseline_settings, best_practice, winner]
    weights = [context.weight(each) for each in settings]
    plan = CONFIRM_PLAN if context.baseline.noise is None else plan_for(CONFIRM_PLAN, context.baseline.noise)
    arms = arms_of(context, settings)
    launches = confirm_launches(
        lambda number: arms.run(
            "confirm",
            plan,
            seed_shift=CONFIRM_SEED_SHIFT + number,
            forced=context.forced_lengths,
            is_backwards=number % 2 == 1,
        ),
        weights,
        context.budget.wall_left_s,
    )
    because = arms.alternate_because
    natural = _natural_blocks(context, arms)
    wall_s = time.monotonic() - started_s
    confirmed = Confirmed(
        signature=change.signature,
        arms=tuple(
            Arm(label=label, signature=signature, observations=tuple(steps_of(launches, index)))
            for index, (label, signature) in enumerate(
                (
                    ("baseline", NOTHING.signature),
                    ("best practice", "best-practice"),
                    ("candidate", change.signature),
                )
            )
        ),
        speedup=launch_ratio(launches, 0, 2, weights),
        speedup_over_best_practice=launch_ratio(launches, 1, 2, weights),
        raw_speedup=ratio_of(natural[0], natural[1], 1 / weights[2]) if natural else None,
        natural=_natural_arms(natural, change),
        holds_for=range_of(context, space, change),
        objectives=gains(context, launches, context.baseline_settings, winner),
        alternate_because=because,
        cost_wall_s=wall_s,
        cost_device_s=wall_s * context.job.devices.num_cores,
    )
    verdicts = guard_confirmation(context.state, change, confirmed)
    context.record(confirmed.model_copy(update={"verdicts": verdicts}))
    for verdict in verdicts:
        if verdict.judgement is not Judgement.PASS:
            context.progress.say(f"confirm: {verdict.guard} {verdict.judgement}: {verdict.because}")
    context.progress.say(
        f"confirm: {confirmed.speedup} over the baseline, {confirmed.speedup_over_best_practice} over best practice"
    )


def _natural_blocks(context: Context, arms: Arms) -> Blocks:
    """Return blocks of baseline and winner at natural lengths; none where the budget ended before.

    Raises:
        ArmDiedError: either died.
    """
    try:
        return arms.run("natural", RAW_PLAN, seed_shift=CONFIRM_SEED_SHIFT, forced=None, only=(0, WINNER))
    except BudgetSpentError as error:
        context.progress.say(f"confirm: natural lengths are not measured: {error}")
        return []
    except ArmDiedError as died:
        raise ArmDiedError(died.arm, died.state, f"at natural lengths: {died}") from died


def _natural_arms(blocks: Blocks, change: Change) -> tuple[Arm, ...]:
    names = (("baseline", NOTHING.signature), ("candidate", change.signature))
    return tuple(
        Arm(label=label, signature=signature, observations=tuple(step for block in arm for step in block))
        for (label, signature), arm in zip(names, blocks, strict=False)
    )


def range_of(context: Context, space: Space, change: Change) -> Range:
    """Forecast the winner against the baseline at the tested, at halved, doubled and at the longest lengths."""
    lengths, longest = context.lengths, context.job.algorithm.max_completion_len
    scaled = {
        "0.5x": lengths.model_copy(update={"completion": tuple(max(1, c // 2) for c in lengths.completion)}),
        "1x": lengths,
        "2x": lengths.model_copy(update={"completion": tuple(min(2 * c, longest) for c in lengths.completion)}),
        "longest": lengths.model_copy(update={"completion": (longest,) * len(lengths.completion)}),
    }
    return Range(
        completion_len_mean=sum(lengths.completion) / len(lengths.completion),
        completion_len_max=max(lengths.completion),
        forecast_ratio_at={name: _ratio_at(context, space, change, at) for name, at in scaled.items()},
        gen_batches=_gen_batches(context),
    )


def _gen_batches(context: Context) -> float | None:
    """Return the batches generated for one that is trained; None where nothing is thrown away, or nobody knows."""
    mixed_frac = context.baseline.health.mixed_groups_frac
    return 1 / mixed_frac if context.job.algorithm.dynamic_sampling and mixed_frac else None


def _ratio_at(context: Context, space: Space, change: Change, lengths: SampledLengths) -> float:
    """Both sides are forecast against the measured baseline, so their quotient is winner / baseline there."""
    baseline = context.baseline_settings
    ratios = [
        forecast_change(
            profile=context.baseline,
            planned_baseline=space.planned_baseline,
            planned=context.framework.planned_work(context.job, settings, lengths),
            change=NOTHING,
            history=(),
            total_memory_bytes=context.framework.total_memory_bytes(),
            headroom_frac=context.job.limits.memory_headroom_frac,
            objective=context.job.objective,
        ).ratio.value
        for settings in (change.applied_to(baseline), baseline)
    ]
    return ratios[0] / ratios[1]


def record_tuned_profile(context: Context, change: Change) -> None:
    """Record the confirmed winner's profile, unless the journal has it."""
    confirmed, tuned = context.state.confirmed, context.state.tuned
    winner = change.applied_to(context.baseline_settings)
    if confirmed is None or confirmed.signature != change.signature:
        return
    if tuned is not None and tuned.settings == winner:
        return
    steps = next(arm.observations for arm in confirmed.arms if arm.label == "candidate")
    baseline = context.baseline
    profile = profile_of(
        context.job,
        ProfileInputs(
            framework=baseline.framework,
            version=baseline.framework_version or "",
            settings=dict(winner),
            kept=steps,
            num_warmup=0,
            lengths=context.lengths,
            health=baseline.health,
            noise=baseline.noise,
            costs=(),
            load_avg=None,
        ),
    )
    context.record(Profiled(label="tuned", profile=profile, cost_wall_s=0.0, cost_device_s=0.0))
