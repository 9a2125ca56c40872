"""What tuning cost, stage by stage, against the budget."""

from collections.abc import Sequence

from steptune.core.estimate import Estimate, Source
from steptune.report.blocks import Bar, Bars, Block, Cell, Table, Text, Tone
from steptune.report.card import NotApplicable, Shown
from steptune.report.cells import column, muted, number, numbers, words
from steptune.report.numbers import derived, measured, value_text
from steptune.report.session_view import SessionView
from steptune.report.stage_costs import StageCost, stage_costs, total_cost


def card(view: SessionView) -> Shown | NotApplicable:
    """Show the bill."""
    stages = stage_costs(view)
    if not stages:
        return NotApplicable(why="no stage has finished, so none has a cost")
    wall, device = total_cost(view)
    blocks: list[Block] = [_bars(stages), _table(stages, wall, device)]
    blocks += _kept(stages)
    if view.started:
        budget = view.started.job.budget
        allowed = f"{value_text(budget.wall_time_s, 's')} wall, {value_text(budget.device_time_s, 's')} device"
        tried = f"{len(view.trial_ends)} of at most {budget.max_trials} trials ended"
        blocks.append(Text(heading="Budget in the job file", lines=(allowed, tried)))
    line = f"{value_text(wall.value, 's')} of wall time, {value_text(device.value, 's')} of device time ({wall.source})"
    return Shown(takeaway=line, blocks=tuple(blocks))


def _bars(stages: Sequence[StageCost]) -> Bars:
    bars = tuple(
        Bar(label=stage.stage, start=0, end=stage.wall_s, cell=number(measured(stage.wall_s, "s")), tone=Tone.MUTED)
        for stage in stages
    )
    return Bars(caption="Wall time per stage", unit="s", bars=bars)


def _table(stages: Sequence[StageCost], wall: Estimate, device: Estimate) -> Table:
    rows: list[tuple[Cell, ...]] = [_row(stage) for stage in stages]
    rest_wall = wall.value - sum(stage.wall_s for stage in stages)
    rest_device = device.value - sum(stage.device_s for stage in stages)
    note = "total minus the stages"
    rest = (number(derived(rest_wall, "s", note=note)), number(derived(rest_device, "s", note=note)))
    rows.append((words("everything else"), muted("none"), *rest))
    rows.append((words("total"), muted("none"), number(wall), number(device)))
    heads = (column("stage"), numbers("runs"), numbers("wall"), numbers("device", "core-seconds"))
    return Table(caption="The bill", columns=heads, rows=tuple(rows))


def _row(stage: StageCost) -> tuple[Cell, ...]:
    return (
        words(stage.stage),
        words(str(stage.num_runs)),
        number(measured(stage.wall_s, "s")),
        number(measured(stage.device_s, "s")),
    )


def _kept(stages: Sequence[StageCost]) -> list[Table]:
    """Return the reserve beside what was used of it; nothing where the journal says of none."""
    rows = [
        (words(stage.stage), number(_reserved(stage.kept_s)), number(measured(stage.wall_s, "s")))
        for stage in stages
        if stage.kept_s is not None
    ]
    heads = (column("stage"), numbers("kept"), numbers("used"))
    return (
        [Table(caption="Wall time kept for what follows the search", columns=heads, rows=tuple(rows))] if rows else []
    )


def _reserved(seconds: float) -> Estimate:
    return Estimate(value=seconds, unit="s", source=Source.FORECAST, note="priced when the search ended")
