"""The last screen of `steptune tune`: one compact table, from the journal alone."""

from collections.abc import Sequence
from textwrap import wrap

from steptune.core.event import Event
from steptune.report.blocks import Cell, Words
from steptune.report.cards.decision import break_even, guards_summary, takeaway
from steptune.report.cells import number, words
from steptune.report.not_shown import not_shown
from steptune.report.saving import expected_saving
from steptune.report.session_view import SessionView, added_text, view_session
from steptune.report.stage_costs import total_cost
from steptune.report.text_table import WIDTH, cell_text, plain

LABEL = 22
"""Characters of the left column."""


def summary_text(events: Sequence[Event], report_path: str = "report.html") -> str:
    """Return outcome, speed-up, levers, guards, cost and where the report is, a line or a few each."""
    view = view_session(events)
    name = plain(view.started.job.name) if view.started else "unknown job"
    lines = [f"steptune: {name}", "-" * WIDTH]
    for label, cell in _rows(view):
        indent = " " * LABEL
        lines += wrap(cell_text(cell), WIDTH, initial_indent=label.ljust(LABEL), subsequent_indent=indent)
    return "\n".join([*lines, f"{'report'.ljust(LABEL)}{plain(report_path)}"]) + "\n"


def _rows(view: SessionView) -> list[tuple[str, Cell]]:
    wall, device = total_cost(view)
    cost: list[tuple[str, Cell]] = [("cost, wall", number(wall)), ("cost, device", number(device))]
    if view.decision is None:
        return [("outcome", words(f"session not finished: {view.unfinished_because}")), *cost]
    decision = view.decision
    best = ("over best practice", number(decision.speedup_over_best_practice))
    return [
        ("outcome", words(takeaway(view, decision))),
        *(("not shown", words(line)) for line in (not_shown(view, decision.verdicts) if view.is_change_out else ())),
        *([best] if decision.speedup is not None else []),
        *_levers(view),
        ("guards", guards_summary(decision.verdicts)),
        *cost,
        ("paid for itself", break_even(view, decision)),
        ("expected saving", expected_saving(view, decision)),
        *(("why", words(reason)) for reason in decision.reasons),
    ]


def _levers(view: SessionView) -> list[tuple[str, Cell]]:
    """Return each lever with its ratio to the step before it, or only the moves where none was measured."""
    if view.decision is None or not view.is_change_out:
        return []
    rows = view.waterfalls[-1].rows[1:] if view.waterfalls else ()
    texts = [f"{cell_text(number(row.ratio_to_previous))}: {added_text(view, row)}" for row in rows]
    texts = texts or [str(move) for move in view.decision.change.moves]
    return [("levers" if index == 0 else "", Words(text=text)) for index, text in enumerate(texts)]
