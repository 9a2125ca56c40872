"""One HTML file that needs nothing else: style and drawings inline, no script, no request.

A content security policy in the file itself forbids every load, so a mistake here cannot phone home.
"""

from collections.abc import Sequence
from importlib.resources import files

from steptune.report.markup import Markup, element

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""Only the inline style sheet; no script, image, font, frame or connection."""


def page(*, title: str, eyebrow: str, heading: str, main: Markup, footnote: str, styles: Sequence[str]) -> str:
    """Return the whole document; ``styles`` names style sheets of this package."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element("style", *map(_style, styles)),
    )
    top = element("header", element("p", eyebrow, class_="eyebrow"), element("h1", heading))
    body = element("body", _patterns(), top, main, element("footer", footnote))
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def _style(name: str) -> Markup:
    return Markup(files("steptune.report").joinpath(name).read_text(encoding="utf-8"))


def _patterns() -> Markup:
    """Return the hatching of waits and the dots of unattributed time, drawn over the phase's own colour."""
    line = element("line", x1=0, y1=0, x2=0, y2=7, class_="hatch-line")
    hatch = element(
        "pattern", line, id="hatch", width=7, height=7, patternUnits="userSpaceOnUse", patternTransform="rotate(45)"
    )
    dot = element("circle", cx=3, cy=3, r=1.2, class_="dot")
    dots = element("pattern", dot, id="dots", width=6, height=6, patternUnits="userSpaceOnUse")
    return element("svg", element("defs", hatch, dots), width=0, height=0, aria_hidden="true", class_="patterns")
