"""What held the baseline up, and the step time that removing each cause could reach at most."""

from steptune.core.bottleneck import Bottleneck
from steptune.report.blocks import Bar, Bars, Cell, Reference, Table, Tone
from steptune.report.card import NotApplicable, Shown
from steptune.report.cells import column, number, numbers, words
from steptune.report.numbers import estimate_text
from steptune.report.session_view import SessionView


def card(view: SessionView) -> Shown | NotApplicable:
    """Show the bottlenecks in the order the diagnosis gave."""
    if view.diagnosed is None:
        return NotApplicable(why="no diagnosis was made")
    found = view.diagnosed.bottlenecks
    if not found:
        return Shown(takeaway="the diagnosis found no bottleneck", blocks=())
    first = found[0]
    line = f"the first is {_name(first)}: without it a step would take {estimate_text(first.ceiling)}"
    return Shown(takeaway=line, blocks=(_bars(view, found), _table(found)))


def _name(bottleneck: Bottleneck) -> str:
    return bottleneck.kind.replace("_", " ")


def _bars(view: SessionView, found: tuple[Bottleneck, ...]) -> Bars:
    step = view.baseline.profile.step_time.value if view.baseline else None
    return Bars(
        caption="Step time if that cost were zero: no change that treats it can do better",
        unit="s",
        bars=tuple(
            Bar(label=_name(b), start=0, end=b.ceiling.value, cell=number(b.ceiling), tone=Tone.MUTED) for b in found
        ),
        references=(Reference(value=step, label="baseline step"),) if step is not None else (),
    )


def _table(found: tuple[Bottleneck, ...]) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (words(_name(b)), number(b.share), number(b.ceiling), words(b.evidence), words(", ".join(b.levers) or "none"))
        for b in found
    ]
    heads = (
        column("bottleneck"),
        numbers("share of the step"),
        numbers("ceiling", "step time without it"),
        column("evidence"),
        column("levers"),
    )
    return Table(caption="Evidence", columns=heads, rows=tuple(rows))
