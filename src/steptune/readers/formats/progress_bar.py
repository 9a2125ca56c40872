"""tqdm progress bars, wherever they are glued to.

The surprise: the printed rate is an exponential average of the last iterations (tqdm's `smoothing` of 0.3), not the
last iteration and not the mean of all. A bar says how fast, never where the time goes.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

from steptune.readers.formats.durations import parse_duration_s

_BAR = re.compile(
    r"(?:(?P<label>[A-Za-z][^|\r\n%]{0,80}?):\s+)?(?<![\d.])\d{1,3}%\s*(?:\|[^|\r\n]*\|)?\s*"
    r"(?P<done>\d+)/(?P<total>\d+) \[(?P<elapsed>[\d:]+)<\**(?P<left>[\d:?]+|\d+ days?, [\d:]+),\s*"
    r"(?P<rate>[\d.]+)(?P<unit>s/\w+|\w+/s)"
)
"""`**` inside comes from people who mark a number in Markdown."""

_LABEL_TAIL = re.compile(r"[A-Za-z][\w \[\]/()-]*$")
"""What of the text before a bar is its label: the words that directly precede it."""


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
        rate, elapsed_s = float(found["rate"].rstrip(".") or 0), parse_duration_s(found["elapsed"])
        if rate <= 0 or elapsed_s is None:
            continue
        label = _LABEL_TAIL.search(found["label"] or "")
        yield Bar(
            label=label[0].strip() if label else "",
            done=int(found["done"]),
            total=int(found["total"]),
            elapsed_s=elapsed_s,
            item_s=rate if found["unit"].startswith("s/") else 1 / rate,
            text=f"{found['rate']}{found['unit']}",
            start=found.start(),
        )
