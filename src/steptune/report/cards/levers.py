"""Where the session started from and what it is compared with: both lever tables, side by side, with reasons."""

from steptune.report.blocks import Cell, Table, Tone
from steptune.report.card import NotApplicable, Shown
from steptune.report.cells import column, knob, muted, words
from steptune.report.session_view import SessionView


def card(view: SessionView) -> Shown | NotApplicable:
    """Show every lever of the chosen baseline and of best practice, and what was handed back."""
    if view.started is None:
        return NotApplicable(why="the journal does not hold the start of the session")
    baseline = {lever.knob: lever for lever in view.started.baseline_levers}
    best = {lever.knob: lever for lever in view.started.best_practice_levers}
    rows: list[tuple[Cell, ...]] = []
    num_apart = 0
    for name in dict.fromkeys([*baseline, *best]):
        ours, theirs = baseline.get(name), best.get(name)
        differs = ours is None or theirs is None or ours.value != theirs.value
        num_apart += differs
        rows.append(
            (
                words(name),
                knob(ours.value) if ours else muted("not stated"),
                words(ours.why if ours else ""),
                knob(theirs.value, Tone.UNSURE if differs else Tone.PLAIN) if theirs else muted("not stated"),
                words(theirs.why if theirs else ""),
                _handed_back(view, name),
            )
        )
    chosen = view.started.job.baseline
    heads = (
        column("knob"),
        column(f"{chosen} baseline"),
        column("because"),
        column("best practice", "marked where it differs"),
        column("because"),
        column("handed back"),
    )
    line = f"the {chosen} baseline and best practice differ in {num_apart} of {len(rows)} levers"
    return Shown(takeaway=line, blocks=(Table(caption="Levers", columns=heads, rows=tuple(rows)),))


def _handed_back(view: SessionView, name: str) -> Cell:
    if view.decision is None:
        return muted("no decision")
    return knob(view.decision.settings[name]) if name in view.decision.settings else muted("not stated")
