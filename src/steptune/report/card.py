"""A report is an ordered list of cards; a card is shown, not applicable, or broken.

A card that crashes becomes `Broken` and is printed as such: one bad number must not cost the reader the rest.
"""

from typing import Annotated, Literal

from pydantic import Field

from steptune.core.records import Record
from steptune.report.blocks import Block


class Shown(Record):
    """A card with something to say."""

    kind: Literal["shown"] = "shown"
    takeaway: str
    """The one line to remember."""
    blocks: tuple[Block, ...]


class NotApplicable(Record):
    """A card the session holds nothing for: ``NotApplicable(why="no reward test was run")``."""

    kind: Literal["not_applicable"] = "not_applicable"
    why: str


class Broken(Record):
    """A card that crashed: ``Broken(error="ZeroDivisionError: division by zero", where="waterfall.py:41")``."""

    kind: Literal["broken"] = "broken"
    error: str
    where: str
    """File name and line that raised, without its folder."""


Body = Annotated[Shown | NotApplicable | Broken, Field(discriminator="kind")]


class Card(Record):
    """One section: ``Card(key="decision", title="Decision", body=Shown(...))``."""

    key: str
    """Stable name, also the anchor in the HTML."""
    title: str
    body: Body


class Report(Record):
    """All cards in reading order."""

    job_name: str | None
    """None when the journal does not even hold its first event."""
    steptune_version: str | None
    """Version that ran the session."""
    cards: tuple[Card, ...]
