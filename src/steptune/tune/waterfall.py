"""Each lever's share: the winner's moves added one after the other, and every stage timed beside the others."""

import time
from collections.abc import Sequence

from steptune.core.change import Change, Move
from steptune.core.event import Waterfall, WaterfallStep
from steptune.propose.make import make_change
from steptune.trial.run import step_time
from steptune.tune.arms import arms_of, ratio_of
from steptune.tune.baseline import NOTHING
from steptune.tune.context import Context
from steptune.tune.forecast_ratio import forecast_ratio
from steptune.tune.launches import Blocks
from steptune.tune.plans import WATERFALL_PLAN
from steptune.tune.search import write_forecast
from steptune.tune.space import Space


def measure_waterfall(context: Context, space: Space, change: Change) -> None:
    """Add the winner's moves one after the other, largest forecast gain first, and time every stage of it.

    Raises:
        BudgetSpentError: the budget ended before every stage was timed.
        ArmDiedError: a stage died.
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
    arms = arms_of(context, settings)
    blocks = arms.run("waterfall", WATERFALL_PLAN, seed_shift=0, forced=context.forced_lengths)
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
        ratio = forecast_ratio(context, space.planned_baseline, settings)
        if best is None or ratio < best[0]:
            best = (ratio, move)
    return left if best is None else [best[1]]


def _row(context: Context, stages: Sequence[Change], blocks: Blocks, index: int) -> WaterfallStep:
    stage = stages[index]
    weights = [context.weight(each.applied_to(context.baseline_settings)) for each in stages]
    added = [str(m) for m in stage.moves if index and m not in stages[index - 1].moves]
    return WaterfallStep(
        added="; ".join(added) or "baseline",
        step_time=step_time([step for block in blocks[index] for step in block]),
        ratio_to_previous=ratio_of(blocks[index], blocks[index - 1], weights[index] / weights[index - 1])
        if index
        else None,
        ratio_to_baseline=ratio_of(blocks[index], blocks[0], weights[index]) if index else None,
        signature=stage.signature,
    )
