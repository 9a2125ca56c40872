"""Elements of an HTML or SVG document, escaped by construction.

Only `Markup` goes into a document as it is, and only `element` makes it; every other string is text. Control
characters that no document may hold become U+FFFD, so a hostile log line cannot break the file.
"""

import re
from html import escape
from typing import final

VOID = frozenset({"meta", "wbr"})
"""Elements without content; written self-closed, so that the document is also well-formed XML."""

FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters outside the XML 1.0 `Char` production (https://www.w3.org/TR/xml/#charsets)."""


@final
class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


def escaped(text: str) -> Markup:
    """Return ``text`` safe between tags and inside quoted attributes."""
    return text if isinstance(text, Markup) else Markup(escape(FORBIDDEN.sub("\ufffd", text)))


def element(tag: str, *children: str, **attributes: str | float | None) -> Markup:
    """Return one element.

    An attribute that is None is left out; `_` becomes `-`, a trailing one (``class_``) is dropped.
    """
    written = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escaped(str(value))}"'
        for name, value in attributes.items()
        if value is not None
    )
    if tag in VOID:
        return Markup(f"<{tag}{written} />")
    return Markup(f"<{tag}{written}>{''.join(map(escaped, children))}</{tag}>")


def prose(text: str) -> Markup:
    """Return a sentence: `literals` in backticks as code, ``->`` as an arrow, names breakable after each ``_``.

    An odd number of backticks stays as it is.
    """
    text = text.replace(" -> ", " \u2192 ")
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return _breakable(text)
    return joined(*(element("code", _breakable(p)) if index % 2 else _breakable(p) for index, p in enumerate(parts)))


def _breakable(text: str) -> Markup:
    return Markup(escaped(text).replace("_", "_" + element("wbr")))


def joined(*parts: str) -> Markup:
    """Return the parts one after the other, each escaped unless it is markup."""
    return Markup("".join(map(escaped, parts)))
