"""The blocks a card is made of, as data: words, figures, tables and three kinds of chart.

Cards say what is shown, renderers how. A chart carries numbers in the unit it names, never pixels, so the
JSON report holds the same facts as the HTML one. A number is always an `Estimate`: it cannot be shown
without its source.
"""

from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from steptune.core.estimate import Estimate
from steptune.core.records import Record


class Tone(StrEnum):
    """How a cell should be read; every renderer also says it in words, never by colour alone."""

    PLAIN = "plain"
    GOOD = "good"
    BAD = "bad"
    UNSURE = "unsure"
    MUTED = "muted"


class Words(Record):
    """A cell of words: ``Words(text="PASS", tone=Tone.GOOD)``."""

    kind: Literal["words"] = "words"
    text: str
    detail: str = ""
    """Small print beside it."""
    tone: Tone = Tone.PLAIN


class Number(Record):
    """A cell with one number: ``Number(estimate=Estimate(value=2.43, unit="x", source=Source.MEASURED))``."""

    kind: Literal["number"] = "number"
    estimate: Estimate
    tone: Tone = Tone.PLAIN


Cell = Annotated[Words | Number, Field(discriminator="kind")]


class Text(Record):
    """Paragraphs, or a list when there are several."""

    kind: Literal["text"] = "text"
    lines: tuple[str, ...]
    heading: str = ""


class Figure(Record):
    """One key figure: ``Figure(label="over best practice", cell=Number(...))``."""

    label: str
    cell: Cell


class Figures(Record):
    """Key figures, shown large, in reading order."""

    kind: Literal["figures"] = "figures"
    figures: tuple[Figure, ...]


class Column(Record):
    """One column: ``Column(head="forecast", note="80 % interval", is_number=True)``."""

    head: str
    note: str = ""
    """What holds for every cell below: interval, reference, source."""
    is_number: bool = False
    """Right-aligned with equal-width digits."""


class Table(Record):
    """Rows of cells under named columns."""

    kind: Literal["table"] = "table"
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]

    @model_validator(mode="after")
    def _rows_match_columns(self) -> Self:
        widths = {len(row) for row in self.rows} - {len(self.columns)}
        if widths:
            raise ValueError(f"table `{self.caption}` has {len(self.columns)} columns, got rows of {sorted(widths)}")
        return self


class Segment(Record):
    """One stretch of a lane: ``Segment(phase="train", kind="busy", seconds=Estimate(0.47 s ...))``."""

    phase: str
    kind: Literal["busy", "exposed_wait", "unattributed"]
    seconds: Estimate


class Lane(Record):
    """One role's step from left to right.

    Example: before, trainer: waits 0.55 s for rollout, trains 0.47 s, 0.004 s unattributed.
    """

    group: str
    """Which configuration: ``before`` or ``after``."""
    label: str
    wall: Estimate
    """Wall time of the role per step."""
    segments: tuple[Segment, ...]
    note: str = ""
    """What the drawing cannot show, for example overlapping spans."""


class Lanes(Record):
    """Lanes on one common time scale that starts at zero, in seconds per step."""

    kind: Literal["lanes"] = "lanes"
    caption: str
    lanes: tuple[Lane, ...]


class Bar(Record):
    """A bar from `start` to `end`; a floating one shows a difference."""

    label: str
    start: float
    end: float
    cell: Cell
    """The number the bar stands for, printed beside it."""
    tone: Tone = Tone.PLAIN


class Reference(Record):
    """A marked value on an axis: ``Reference(value=1.0, label="baseline")``."""

    value: float
    label: str


class Bars(Record):
    """Horizontal bars on one axis that starts at zero."""

    kind: Literal["bars"] = "bars"
    caption: str
    unit: str
    bars: tuple[Bar, ...]
    references: tuple[Reference, ...] = ()


class Mark(Record):
    """One value of a row, with its interval: ``Mark(series="forecast", estimate=Estimate(...))``."""

    series: str
    estimate: Estimate


class RangeRow(Record):
    """Values to be compared: one trial's forecast and measurement, or one seed's three rewards."""

    label: str
    marks: tuple[Mark, ...]
    note: str = ""


class Ranges(Record):
    """Points with intervals, one row each, on one axis that need not start at zero."""

    kind: Literal["ranges"] = "ranges"
    caption: str
    unit: str
    series: tuple[str, ...]
    """Series in drawing order; each has its own shape as well as its own colour."""
    rows: tuple[RangeRow, ...]
    references: tuple[Reference, ...] = ()


Block = Annotated[Text | Figures | Table | Lanes | Bars | Ranges, Field(discriminator="kind")]
