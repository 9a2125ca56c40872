"""The answer of `steptune diagnose` as one page: the point in large letters, then pictures, then everything else."""

from collections.abc import Collection

from steptune import __version__
from steptune.core.finding import Diagnosis, FindingKind, Neighbour, PhaseRow
from steptune.report.blocks import Block, Cell, Table
from steptune.report.cells import column, muted, number, numbers, words
from steptune.report.diagnosis_text import SECTIONS, files_text, gaps, missing_text
from steptune.report.headline import Headline, facts_text, headline
from steptune.report.html_blocks import block_markup
from steptune.report.html_findings import findings_markup
from steptune.report.html_page import page
from steptune.report.markup import Markup, element, joined, prose
from steptune.report.neighbour_text import differences
from steptune.report.numbers import derived, digits, value_text
from steptune.report.phase_rows import is_small, row_name, row_origin, shown_rows
from steptune.report.pictures import ceilings, lengths, timeline, without_note
from steptune.report.places import Places
from steptune.report.trends import trends

FOOTNOTE = (
    "Every number names its source: measured (stated by the log), derived (computed from measured ones), forecast, or "
    "published. Nothing was sent anywhere to make this page, and it loads nothing. Values that look like passwords or "
    "keys were replaced before anything was written."
)


def diagnosis_html(diagnosis: Diagnosis, kinds: Collection[FindingKind] = ()) -> str:
    """Return the page; with ``kinds`` only the findings of these kinds, as `lint` and `--only` show them."""
    places = Places(diagnosis.paste.paths)
    names = files_text(diagnosis.paste.paths, places)
    cards = _some(diagnosis, places, kinds) if kinds else _all(diagnosis, places)
    return page(
        title=f"{names}: steptune",
        eyebrow=f"steptune {__version__} {'findings' if kinds else 'diagnosis'}",
        heading=names,
        main=element("main", *cards),
        footnote=FOOTNOTE,
        styles=("style.css", "answer.css"),
    )


def card(key: str, title: str, *content: Markup) -> Markup:
    """Return a section; nothing when all of its content is empty."""
    return element("section", element("h2", title), *content, id=key, class_="card shown") if any(content) else joined()


def _all(diagnosis: Diagnosis, places: Places) -> list[Markup]:
    cards = [_answer(headline(diagnosis), diagnosis), _time(diagnosis, places)]
    cards.append(
        card("causes", "What holds it up, and what helps", _findings(diagnosis, (FindingKind.BOTTLENECK,), places))
    )
    cards.append(card("cannot_help", "What cannot help", _list(diagnosis.cannot_help)))
    for title, kinds in SECTIONS:
        cards.append(card(str(kinds[0]), title, _findings(diagnosis, kinds, places)))
    cards.append(card("trends", "Over the steps", trends(diagnosis.paste)))
    cards.append(card("published", "Nearest published runs", _neighbours(diagnosis.neighbours)))
    return [*cards, _gaps(diagnosis, places)]


def _some(diagnosis: Diagnosis, places: Places, kinds: Collection[FindingKind]) -> list[Markup]:
    found = _findings(diagnosis, kinds, places) or element("p", "Nothing found.", class_="absent")
    return [card("findings", facts_text(diagnosis.paste), found)]


def _answer(top: Headline, diagnosis: Diagnosis) -> Markup:
    first = [
        element("li", prose(finding.title), " ", element("code", finding.code, class_="code")) for finding in top.first
    ]
    fix = element("div", element("h3", "Fix this first"), element("ul", *first), class_="first") if first else joined()
    lead, *rest = top.speed
    switches = () if top.has_timing else diagnosis.switch_on
    return element(
        "section",
        element("p", top.facts, class_="facts"),
        fix,
        element("p", prose(lead), class_="takeaway"),
        *(element("p", prose(text)) for text in rest),
        _switches(switches),
        id="decision",
        class_="card shown",
    )


def _time(diagnosis: Diagnosis, places: Places) -> Markup:
    profile = diagnosis.paste.profile
    if profile is None:
        return (
            card("time", "Phases that are timed", block_markup(_phases(diagnosis, places)))
            if diagnosis.phases
            else joined()
        )
    blocks: list[Block | None] = [timeline(profile), ceilings(diagnosis), lengths(profile)]
    if diagnosis.phases:
        blocks.insert(1, _phases(diagnosis, places))
    return card("time", "Where the step goes", *(block_markup(block) for block in blocks if block is not None))


def _phases(diagnosis: Diagnosis, places: Places) -> Table:
    rows = shown_rows(diagnosis)
    heads = (
        column("role"),
        column("phase"),
        numbers("per step"),
        numbers("share", "of the role's step"),
        numbers("s per 1,000 tokens"),
        numbers("step if free", "everything else as it is"),
        column("read at"),
    )
    cells = [(*_row(row), words(row.key, places.of(row_origin(diagnosis.paste, row)))) for row in rows]
    if all(row.s_per_1k_tokens is None for row in rows):
        heads, cells = (*heads[:4], *heads[5:]), [(*line[:4], *line[5:]) for line in cells]
    return Table(
        caption="Phases of the mean step; a child phase is inside its parent", columns=heads, rows=tuple(cells)
    )


def _row(row: PhaseRow) -> tuple[Cell, ...]:
    rate, small = row.s_per_1k_tokens, is_small(row)
    return (
        words(str(row.role)),
        words(row_name(row)),
        number(row.seconds),
        muted("below 0.1 %") if small else muted("") if row.share is None else number(derived(row.share, "frac")),
        muted("") if rate is None or small else number(derived(rate, "s")),
        muted("") if row.if_free is None or small else number(without_note(row.if_free)),
    )


def _findings(diagnosis: Diagnosis, kinds: Collection[FindingKind], places: Places) -> Markup:
    return findings_markup((finding for finding in diagnosis.findings if finding.kind in kinds), places)


def _neighbours(neighbours: Collection[Neighbour]) -> Markup:
    if not neighbours:
        return joined()
    heads = (
        column("run"),
        column("job"),
        numbers("step"),
        numbers("tokens/s per GPU"),
        column("differs"),
        column("source"),
    )
    table = Table(caption="As published, not measured here", columns=heads, rows=tuple(map(_neighbour, neighbours)))
    return block_markup(table)


def _neighbour(near: Neighbour) -> tuple[Cell, ...]:
    step, rate = near.step_time_s, near.tokens_per_s_per_gpu
    return (
        words(near.run_id),
        words(f"{near.model}, {near.framework}, {near.gpus}"),
        muted("not stated") if step is None else words(value_text(step, "s"), "published"),
        muted("not stated") if rate is None else words(digits(rate), "published"),
        words("; ".join(differences(near)).removeprefix("differs: ")),
        words(near.source),
    )


def _gaps(diagnosis: Diagnosis, places: Places) -> Markup:
    missing = missing_text(diagnosis.paste.profile)
    return card(
        "gaps",
        "What was not said",
        findings_markup(gaps(diagnosis), places),
        element("p", prose(missing)) if missing else joined(),
        _switches(diagnosis.switch_on if diagnosis.paste.profile is not None else ()),
    )


def _switches(lines: Collection[str]) -> Markup:
    if not lines:
        return joined()
    code = element("pre", element("code", "\n".join(lines)), tabindex=0, aria_label="lines to copy")
    return joined(element("p", "To get it, switch on:"), code)


def _list(lines: Collection[str]) -> Markup:
    return element("ul", *(element("li", prose(line)) for line in lines)) if lines else joined()
