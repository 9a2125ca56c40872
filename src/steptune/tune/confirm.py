"""After the search: each lever's share, and a confirmation on fresh launches that chose nothing."""

import time
from collections.abc import Sequence

from steptune.core.change import Change, Move
from steptune.core.decision import Range
from steptune.core.errors import BudgetSpentError
from steptune.core.estimate import Estimate, Source
from steptune.core.event import Confirmed, Profiled, Waterfall, WaterfallStep
from steptune.core.framework import LaunchSpec, Session
from steptune.core.knob import Settings
from steptune.core.profile import SampledLengths
from steptune.core.trial import Arm, Observation
from steptune.core.verdict import Judgement
from steptune.forecast.forecast import forecast_change
from steptune.profile.aggregate import ProfileInputs, profile_of
from steptune.propose.make import make_change
from steptune.stats.ratio import ratio_interval
from steptune.trial.blocks import BlockPlan, mean_step_s, rotate_arms, warm_up
from steptune.trial.run import step_time
from steptune.trial.settle import settle
from steptune.tune.baseline import NOTHING
from steptune.tune.context import Context, settings_of
from steptune.tune.gather import plan_for
from steptune.tune.launches import Blocks, confirm_launches, launch_ratio, steps_of
from steptune.tune.objectives import gains
from steptune.tune.once_more import once_more
from steptune.tune.search import write_forecast
from steptune.tune.space import Space
from steptune.tune.step_guards import ages_of, guard_confirmation

WATERFALL_PLAN = BlockPlan(max_pairs=4, kept_steps=2)
"""Rounds over all rows of the waterfall: 8 steps, one turn of the reference lengths that the forecasts average."""

CONFIRM_PLAN = BlockPlan(max_pairs=2, kept_steps=3)
"""Rounds over baseline, best practice and winner in one launch: there and back, so that drift falls on all alike."""

RAW_PLAN = BlockPlan(max_pairs=2, kept_steps=3)
"""Rounds over baseline and winner at natural lengths."""

CONFIRM_SEED_SHIFT = 1000
"""Added to the job's seed: other problems and other noise than any trial saw."""


def measure_waterfall(context: Context, space: Space, change: Change) -> None:
    """Add the winner's moves one after the other, largest forecast gain first, and time every stage of it.

    Raises:
        BudgetSpentError: the budget ended before every stage was timed.
    """
    started_s = time.monotonic()
    context.runs.stop()
    stages = waterfall_stages(context, space, change)
    measured = {row.signature for waterfall in context.state.waterfalls for row in waterfall.rows}
    for number, stage in enumerate(stages[1:], 1):
        if stage.signature in measured:
            continue
        planned = context.planned(stage.applied_to(context.baseline_settings))
        write_forecast(context, space, stage, planned, number=number, purpose="waterfall", history=())
    context.progress.say(f"waterfall: {len(stages) - 1} groups of levers, added one by one")
    settings = [stage.applied_to(context.baseline_settings) for stage in stages]
    blocks = _run_arms(context, settings, "waterfall", WATERFALL_PLAN, seed_shift=0, forced=context.forced_lengths)
    wall_s = time.monotonic() - started_s
    context.record(
        Waterfall(
            rows=tuple(_row(context, stages, blocks, index) for index in range(len(stages))),
            cost_wall_s=wall_s,
            cost_device_s=wall_s * context.job.devices.num_cores,
        )
    )


def waterfall_stages(context: Context, space: Space, change: Change) -> list[Change]:
    """Return cumulative changes from nothing to the winner; moves that only run together are added together."""
    by_name = {spec.name: spec for spec in context.specs}
    left = list(change.moves)
    stages, done = [NOTHING], list[Move]()
    while left:
        group = _next_group(context, space, done, left)
        done, left = [*done, *group], [move for move in left if move not in group]
        stages.append(make_change(tuple(done), by_name, context.state.bottlenecks or ()))
    return stages


def _next_group(context: Context, space: Space, done: list[Move], left: list[Move]) -> list[Move]:
    """Return the single move with the best forecast that can run on top of ``done``, else all that are left."""
    best: tuple[float, Move] | None = None
    for move in left:
        settings = {**context.baseline_settings, **{m.knob: m.new for m in [*done, move]}}
        if context.framework.conflicts(context.job, settings):
            continue
        ratio = _forecast_ratio(context, space, settings)
        if best is None or ratio < best[0]:
            best = (ratio, move)
    return left if best is None else [best[1]]


def _forecast_ratio(context: Context, space: Space, settings: Settings) -> float:
    return forecast_change(
        profile=context.baseline,
        planned_baseline=space.planned_baseline,
        planned=context.planned(settings),
        change=NOTHING,
        history=(),
        total_memory_bytes=context.framework.total_memory_bytes(),
        headroom_frac=context.job.limits.memory_headroom_frac,
        objective=context.job.objective,
    ).ratio.value


def _row(context: Context, stages: Sequence[Change], blocks: Blocks, index: int) -> WaterfallStep:
    stage = stages[index]
    weights = [context.weight(each.applied_to(context.baseline_settings)) for each in stages]
    added = [str(m) for m in stage.moves if index and m not in stages[index - 1].moves]
    return WaterfallStep(
        added="; ".join(added) or "baseline",
        step_time=step_time([step for block in blocks[index] for step in block]),
        ratio_to_previous=_ratio(blocks[index], blocks[index - 1], weights[index] / weights[index - 1])
        if index
        else None,
        ratio_to_baseline=_ratio(blocks[index], blocks[0], weights[index]) if index else None,
        signature=stage.signature,
    )


def confirm(context: Context, space: Space, change: Change) -> None:
    """Time baseline, best practice and winner afresh; record the gain and its range.

    Raises:
        BudgetSpentError: the budget ended before there were launches enough to say anything.
    """
    started_s = time.monotonic()
    context.runs.stop()
    context.progress.say("confirm: baseline, best practice and winner on fresh launches, other seeds")
    winner = change.applied_to(context.baseline_settings)
    best_practice = settings_of(context.started.best_practice_levers)
    settings = [context.baseline_settings, best_practice, winner]
    weights = [context.weight(each) for each in settings]
    plan = CONFIRM_PLAN if context.baseline.noise is None else plan_for(CONFIRM_PLAN, context.baseline.noise)
    launches = confirm_launches(
        lambda number: _run_arms(
            context,
            settings,
            "confirm",
            plan,
            seed_shift=CONFIRM_SEED_SHIFT + number,
            forced=context.forced_lengths,
        ),
        weights,
        context.budget.wall_left_s,
    )
    natural = _natural_blocks(context, [settings[0], winner])
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
        raw_speedup=_ratio(natural[0], natural[1], 1 / weights[2]) if natural else None,
        natural=_natural_arms(natural, change),
        holds_for=range_of(context, space, change),
        objectives=gains(context, launches, context.baseline_settings, winner),
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


def _natural_blocks(context: Context, settings: Sequence[Settings]) -> Blocks:
    """Return blocks of baseline and winner at natural lengths; none where the budget ended before."""
    try:
        return _run_arms(context, settings, "natural", RAW_PLAN, seed_shift=CONFIRM_SEED_SHIFT, forced=None)
    except BudgetSpentError as error:
        context.progress.say(f"confirm: natural lengths are not measured: {error}")
        return []


def _natural_arms(blocks: Blocks, change: Change) -> tuple[Arm, ...]:
    names = (("baseline", NOTHING.signature), ("candidate", change.signature))
    return tuple(
        Arm(label=label, signature=signature, observations=tuple(step for block in arm for step in block))
        for (label, signature), arm in zip(names, blocks, strict=False)
    )


def range_of(context: Context, space: Space, change: Change) -> Range:
    """Forecast the winner against the baseline at the tested, at doubled and at the longest lengths."""
    lengths, longest = context.lengths, context.job.algorithm.max_completion_len
    scaled = {
        "1x": lengths,
        "2x": lengths.model_copy(update={"completion": tuple(min(2 * c, longest) for c in lengths.completion)}),
        "longest": lengths.model_copy(update={"completion": (longest,) * len(lengths.completion)}),
    }
    return Range(
        completion_len_mean=sum(lengths.completion) / len(lengths.completion),
        completion_len_max=max(lengths.completion),
        forecast_ratio_at={name: _ratio_at(context, space, change, at) for name, at in scaled.items()},
    )


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


def _run_arms(
    context: Context,
    settings: Sequence[Settings],
    name: str,
    plan: BlockPlan,
    *,
    seed_shift: int,
    forced: SampledLengths | None,
) -> Blocks:
    seed = context.job.algorithm.seed + seed_shift
    specs = [LaunchSpec(settings=dict(each), seed=seed, forced_lengths=forced) for each in settings]
    return once_more(lambda: _launch_arms(context, specs, name, plan), context.progress.say)


def _launch_arms(context: Context, specs: Sequence[LaunchSpec], name: str, plan: BlockPlan) -> Blocks:
    sessions: list[Session] = []
    folder = context.run_path("arms", name)
    try:
        for index, spec in enumerate(specs):
            sessions.append(context.runs.launch_fresh(context.job, spec, folder / str(index)))
        settled = settle(sessions, warm_up(sessions), plan, ages_of(context.job))
        return rotate_arms(sessions, plan.max_pairs, settled)
    finally:
        for session in sessions:
            session.close()


def _ratio(above: Sequence[Sequence[Observation]], below: Sequence[Sequence[Observation]], weight: float) -> Estimate:
    """Return above / below in the job's objective; swapping the arms gives exactly the inverse."""
    interval = ratio_interval([mean_step_s(b) * weight for b in above], [mean_step_s(b) for b in below])
    return interval.estimate(unit="x", source=Source.MEASURED)


def record_tuned_profile(context: Context, change: Change) -> None:
    """Record the confirmed winner's profile, unless the journal has it."""
    confirmed, tuned = context.state.confirmed, context.state.tuned
    winner = change.applied_to(context.baseline_settings)
    if confirmed is None or (tuned is not None and tuned.settings == winner):
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
