"""Every guard's verdict: first those the decision rests on, then those of each trial."""

from collections.abc import Sequence

from steptune.core.verdict import Judgement, Verdict
from steptune.report.blocks import Block, Cell, Table
from steptune.report.card import NotApplicable, Shown
from steptune.report.cells import column, judgement, number, numbers, words
from steptune.report.session_view import SessionView

HEADS = (
    column("guard"),
    column("judgement"),
    numbers("measured"),
    column("limit"),
    numbers("smallest detectable"),
    column("because"),
)
"""Columns of every verdict table."""


def card(view: SessionView) -> Shown | NotApplicable:
    """Show what the guards said."""
    decided = view.decision.verdicts if view.decision else ()
    tried = [(end.trial.number, verdict) for end in view.trial_ends for verdict in end.verdicts]
    if not decided and not tried:
        return NotApplicable(why="no guard ran")
    blocks: list[Block] = []
    if decided:
        rows = tuple(_cells(verdict) for verdict in decided)
        blocks.append(Table(caption=_whose(view), columns=HEADS, rows=rows))
    if tried:
        rows = tuple((words(str(trial)), *_cells(verdict)) for trial, verdict in tried)
        blocks.append(Table(caption="Verdicts during the trials", columns=(numbers("trial"), *HEADS), rows=rows))
    return Shown(takeaway=_takeaway(decided, [verdict for _, verdict in tried]), blocks=tuple(blocks))


def _whose(view: SessionView) -> str:
    if view.is_change_out:
        return "Verdicts on the configuration handed back"
    return "Verdicts on the candidate, which is not handed back"


def _takeaway(decided: Sequence[Verdict], tried: Sequence[Verdict]) -> str:
    return (
        f"{_counts(decided)} on the decision"
        if decided
        else f"{_counts(tried)} in the trials; no verdict belongs to a decision"
    )


def _counts(verdicts: Sequence[Verdict]) -> str:
    said = [verdict.judgement for verdict in verdicts]
    return ", ".join(f"{said.count(value)} {value}" for value in Judgement)


def _cells(verdict: Verdict) -> tuple[Cell, ...]:
    return (
        words(verdict.guard),
        judgement(verdict.judgement),
        number(verdict.measured),
        words(verdict.limit),
        number(verdict.detectable, missing="does not apply"),
        words(verdict.because),
    )
