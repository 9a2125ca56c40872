"""tqdm progress bars, wherever they are glued to.

The surprise: the printed rate is an exponential average of the last iterations (tqdm's `smoothing` of 0.3), not the
last iteration and not the mean of all. A bar says how fast, never where the time goes.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

from steptune.readers.formats.durations import parse_duration_s
from steptune.readers.values import parse_number

_BAR = re.compile(
    r"%(?<=\d%)(?<!\d{4}%)(?<!\.\d%)(?<!\.\d\d%)(?<!\.\d\d\d%)"
    r"\s{0,3}(?:\|[^|\r\n]{0,200}\|)?\s{0,3}(?P<done>\d{1,9})/(?P<total>\d{1,9}) "
    r"\[(?P<elapsed>[\d:]+)<\**(?:[\d:?]+|\d+ days?, [\d:]+),\s*(?P<rate>[\d.]+)(?P<unit>s/\w+|\w+/s)"
)
"""`**` inside comes from people who mark a number in Markdown. It begins with a literal, which is found fast, and then
looks back for the one to three digits of a whole number."""

_LABEL = re.compile(r"(?P<label>[A-Za-z][\w \[\]/()-]*):\s+$")
"""What of the text before a bar is its label: the words that directly precede it."""

_LABEL_LENGTH = 80
"""Longest label looked for, in characters."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Bar:
    """Example: ``Bar(label="", done=3, total=1562, elapsed_s=1128.0, item_s=379.99, text="379.99s/it", start=0)``."""

    label: str
    """Words before the percentage; empty for the bar of a Hugging Face trainer."""
    done: int
    total: int
    elapsed_s: float
    item_s: float
    """Seconds per item, as tqdm averages them."""
    text: str
    """The rate as printed."""
    start: int
    """Where in the line the bar starts."""


def find_bars(text: str) -> Iterator[Bar]:
    """Yield the bars of one line that state a rate."""
    for found in _BAR.finditer(text):
        rate, elapsed_s = parse_number(found["rate"]), parse_duration_s(found["elapsed"])
        if rate is None or rate <= 0 or elapsed_s is None:
            continue
        start = len(text[: found.start()].rstrip("0123456789"))
        label = _LABEL.search(text[max(0, start - _LABEL_LENGTH) : start])
        yield Bar(
            label=label["label"].strip() if label else "",
            done=int(found["done"]),
            total=int(found["total"]),
            elapsed_s=elapsed_s,
            item_s=rate if found["unit"].startswith("s/") else 1 / rate,
            text=f"{found['rate']}{found['unit']}",
            start=start,
        )
