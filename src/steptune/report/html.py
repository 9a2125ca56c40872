"""The report of a run folder as one HTML file."""

from steptune.report.card import Broken, Card, NotApplicable, Report, Shown
from steptune.report.html_blocks import block_markup
from steptune.report.html_page import page
from steptune.report.markup import Markup, element, joined, prose


def render_html(report: Report) -> str:
    """Return the whole document."""
    name = report.job_name or "unknown job"
    cards = [_card(number, card) for number, card in enumerate(report.cards, start=1)]
    made_by = f"steptune {report.steptune_version}" if report.steptune_version else "steptune"
    return page(
        title=f"{name}: steptune report",
        eyebrow=f"{made_by} report",
        heading=name,
        main=element("main", *cards[:1], _contents(report), *cards[1:]),
        footnote=_footnote(),
        styles=("style.css",),
    )


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


def _footnote() -> str:
    return (
        "Every number names its source: measured (read off a clock or counter), derived (computed from measured ones), "
        "forecast (written before the run that could measure it), published, or virtual (on a virtual clock). "
        "Intervals are 95 % unless they say otherwise. Everything here is read from the run folder's journal."
    )
