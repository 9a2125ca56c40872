"""Every trial, whatever became of it: adopted, rejected, stopped, failed, or cut off by a kill."""

from steptune.core.event import TrialEnded
from steptune.core.trial import TrialState
from steptune.report.blocks import Block, Cell, Table, Text, Tone, Words
from steptune.report.card import NotApplicable, Shown
from steptune.report.cells import OUTCOME_TONES, column, muted, number, numbers, words
from steptune.report.numbers import count_text, measured
from steptune.report.session_view import SessionView

HEADS = (
    numbers("trial"),
    column("change"),
    column("outcome", "and state"),
    numbers("ratio to incumbent", "below 1 is faster"),
    numbers("ratio to baseline"),
    numbers("step time"),
    numbers("wall", "measured"),
    numbers("device", "measured"),
    column("cause and reasons"),
)
"""Columns of the trial table."""


def card(view: SessionView) -> Shown | NotApplicable:
    """List the trials, then what was refused before it could become one."""
    killed = view.killed_trials
    blocks: list[Block] = []
    if view.trial_ends or killed:
        rows = [_ended(end) for end in view.trial_ends]
        rows += [_killed(start.number, str(start.change)) for start in killed]
        blocks.append(Table(caption="Trials, in order", columns=HEADS, rows=tuple(rows)))
    if view.proposed is not None:
        refused = f"{view.proposed.num_refused} of {view.proposed.num_candidates} candidates refused before any trial"
        blocks.append(Text(heading=refused, lines=view.proposed.refusals))
    if not blocks:
        return NotApplicable(why="no change was proposed or tried")
    return Shown(takeaway=_takeaway(view), blocks=tuple(blocks))


def _takeaway(view: SessionView) -> str:
    if not view.trial_ends and not view.killed_trials:
        return "nothing was tried"
    states = [end.trial.state for end in view.trial_ends]
    parts = [f"{states.count(state)} {state.replace('_', ' ')}" for state in TrialState if state in states]
    parts += [f"{len(view.killed_trials)} cut off without a result"] if view.killed_trials else []
    return f"{count_text(len(states) + len(view.killed_trials), 'trial')}: {', '.join(parts)}"


def _ended(end: TrialEnded) -> tuple[Cell, ...]:
    trial = end.trial
    said = [part for part in (trial.cause, *end.reasons) if part]
    return (
        words(str(trial.number)),
        words(str(trial.change), f"{trial.change.effect} effect, {trial.change.restart}"),
        Words(text=str(end.outcome), detail=trial.state.replace("_", " "), tone=OUTCOME_TONES[end.outcome]),
        number(trial.ratio, missing="none"),
        number(end.ratio_to_baseline, missing="none"),
        number(trial.step_time, missing="none"),
        number(measured(trial.cost_wall_s, "s")),
        number(measured(trial.cost_device_s, "s")),
        words("; ".join(said)),
    )


def _killed(trial: int, change: str) -> tuple[Cell, ...]:
    nothing = muted("none")
    state = Words(text="no result", detail="started, never ended", tone=Tone.UNSURE)
    return (words(str(trial)), words(change), state, *([nothing] * 5), words("the session stopped while it ran"))
