"""The answer of `steptune compare` as one page: the verdict in large letters, then what it rests on."""

import math

from steptune import __version__
from steptune.core.comparison import Comparison, SpeedVerdict
from steptune.report.blocks import Bar, Bars, Mark, RangeRow, Ranges, Reference, Tone
from steptune.report.cells import number
from steptune.report.comparison_tables import difference_tables, phases_table
from steptune.report.comparison_text import VERDICTS, origins, version_text
from steptune.report.diagnosis_html import FOOTNOTE, card
from steptune.report.html_blocks import block_markup
from steptune.report.html_cells import cell_markup
from steptune.report.html_findings import findings_markup
from steptune.report.html_page import page
from steptune.report.markup import Markup, element, joined, prose
from steptune.report.numbers import measured
from steptune.report.pictures import without_note
from steptune.report.places import Places

CLASSES = {SpeedVerdict.FASTER: "faster", SpeedVerdict.SLOWER: "slower", SpeedVerdict.NO_PROOF: "open"}
"""Style of each verdict; the word itself is always there."""


def comparison_html(comparison: Comparison, name_a: str = "A", name_b: str = "B") -> str:
    """Return the page."""
    places = Places(origin.path for origin in origins(comparison.findings))
    cards = (
        _verdict(comparison, name_a, name_b),
        card("phases", "Phase by phase", *_phases(comparison)),
        card("differences", "What differs", *map(block_markup, difference_tables(comparison))),
        card("findings", "Findings", findings_markup(comparison.findings, places)),
        card("settle", "What would settle it", _list(comparison.settle)),
    )
    return page(
        title=f"{name_a} against {name_b}: steptune",
        eyebrow=f"steptune {__version__} comparison",
        heading=f"{name_a} \u2192 {name_b}",
        main=element("main", *cards),
        footnote=FOOTNOTE,
        styles=("style.css", "answer.css"),
    )


def _verdict(comparison: Comparison, name_a: str, name_b: str) -> Markup:
    named = (
        ("tokens per device-second, B / A", comparison.throughput_ratio),
        ("step time as logged, A / B", comparison.raw_step_ratio),
    )
    tiles = [
        element("div", element("dt", name), element("dd", cell_markup(number(without_note(ratio)))), class_="figure")
        for name, ratio in named
        if ratio is not None
    ]
    return element(
        "section",
        element("p", prose(f"{VERDICTS[comparison.verdict]}: {comparison.reason}"), class_="takeaway"),
        element("dl", *tiles, class_="figures") if tiles else joined(),
        element("p", f"A is {name_a}, B is {name_b}; {version_text(comparison)}", class_="facts"),
        id="decision",
        class_=f"card shown verdict-{CLASSES[comparison.verdict]}",
    )


def _phases(comparison: Comparison) -> list[Markup]:
    """Return seconds of both sides as bars, the standardised ratios where they are known, and the table."""
    if not comparison.phases:
        return []
    blocks = [block_markup(_bars(comparison)), *map(block_markup, _ratios(comparison))]
    return [*blocks, block_markup(phases_table(comparison.phases))]


def _bars(comparison: Comparison) -> Bars:
    bars = [
        Bar(label=f"{change.phase}, {side}", start=0.0, end=value, cell=number(measured(value, "s")), tone=tone)
        for change in comparison.phases
        for side, value, tone in (("A", change.a_s, Tone.MUTED), ("B", change.b_s, Tone.PLAIN))
    ]
    return Bars(caption="Seconds per step as logged; not comparable where the work differs", unit="s", bars=tuple(bars))


def _ratios(comparison: Comparison) -> list[Ranges]:
    rows = [
        RangeRow(label=change.phase, marks=(Mark(series="A / B", estimate=change.ratio),))
        for change in comparison.phases
        if change.ratio is not None and math.isfinite(change.ratio.value)
    ]
    if not rows:
        return []
    caption = "Time at the same tokens, A / B: right of 1, B is faster"
    even = (Reference(value=1.0, label="no change"),)
    return [Ranges(caption=caption, unit="x", series=("A / B",), rows=tuple(rows), references=even)]


def _list(lines: tuple[str, ...]) -> Markup:
    return element("ul", *(element("li", prose(line)) for line in lines)) if lines else joined()
