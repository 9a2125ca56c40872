"""The report as one HTML file that needs nothing else: style and drawings inline, no script, no request.

A content security policy in the file itself forbids every load, so a mistake here cannot phone home.
"""

from importlib.resources import files

from steptune.report.card import Broken, Card, NotApplicable, Report, Shown
from steptune.report.html_blocks import block_markup
from steptune.report.markup import Markup, element, joined, prose

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""Only the inline style sheet; no script, image, font, frame or connection."""


def render_html(report: Report) -> str:
    """Return the whole document."""
    name = report.job_name or "unknown job"
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("meta", name="color-scheme", content="light dark"),
        element("title", f"{name}: steptune report"),
        element("style", _style()),
    )
    cards = [_card(number, card) for number, card in enumerate(report.cards, start=1)]
    made_by = f"steptune {report.steptune_version}" if report.steptune_version else "steptune"
    top = element("header", element("p", f"{made_by} report", class_="eyebrow"), element("h1", name))
    main = element("main", *cards[:1], _contents(report), *cards[1:])
    body = element("body", _patterns(), top, main, element("footer", _footnote()))
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def _style() -> Markup:
    return Markup(files("steptune.report").joinpath("style.css").read_text(encoding="utf-8"))


def _card(number: int, card: Card) -> Markup:
    title = element("h2", element("span", str(number), class_="ordinal"), card.title)
    body = card.body
    if isinstance(body, Shown):
        content = joined(element("p", prose(body.takeaway), class_="takeaway"), *map(block_markup, body.blocks))
    elif isinstance(body, NotApplicable):
        content = element("p", prose(f"Not applicable: {body.why}"), class_="absent")
    else:
        content = _broken(body)
    return element("section", title, content, id=card.key, class_=f"card {body.kind}")


def _broken(body: Broken) -> Markup:
    said = f"This card could not be made: {body.error} ({body.where}). The other cards are not affected."
    return element("p", said, class_="absent")


def _contents(report: Report) -> Markup:
    links = [element("li", element("a", card.title, href=f"#{card.key}")) for card in report.cards[1:]]
    return element("nav", element("ol", *links, start=2), aria_label="Contents")


def _patterns() -> Markup:
    """Return the hatching of waits and the dots of unattributed time, drawn over the phase's own colour."""
    line = element("line", x1=0, y1=0, x2=0, y2=7, class_="hatch-line")
    hatch = element(
        "pattern", line, id="hatch", width=7, height=7, patternUnits="userSpaceOnUse", patternTransform="rotate(45)"
    )
    dot = element("circle", cx=3, cy=3, r=1.2, class_="dot")
    dots = element("pattern", dot, id="dots", width=6, height=6, patternUnits="userSpaceOnUse")
    return element("svg", element("defs", hatch, dots), width=0, height=0, aria_hidden="true", class_="patterns")


def _footnote() -> str:
    return (
        "Every number names its source: measured (read off a clock or counter), derived (computed from measured ones), "
        "forecast (written before the run that could measure it), published, or virtual (on a virtual clock). "
        "Intervals are 95 % unless they say otherwise. Everything here is read from the run folder's journal."
    )
