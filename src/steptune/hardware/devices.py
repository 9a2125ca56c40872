"""Facts about devices: what memory a card can have at most, and how many rows fill it.

The surprise: a name is often not a card. ``A100`` is sold with 40 and 80 GB, so an unspecific name gets the larger
size: the table answers "can this number be true?", not "what do you have?".
"""

import csv
import re
from functools import cache
from importlib.resources import files
from typing import Literal

from steptune.core.records import Record

TERA = 1e12
GIGA = 1e9

Family = Literal["blackwell", "hopper", "ada", "ampere", "volta", "turing", "cdna2", "cdna3", "cdna4", "ascend"]
"""Generations whose kernels round alike."""


class Device(Record):
    """One device.

    Example: ``Device(name="H100", pattern="H100", family="hopper", memory_gib=80, bf16_peak_tflops=989,
    hbm_gbyte_per_s=3350, link="NVLink 4", link_gbyte_per_s=900, source="https://...")``.
    """

    name: str
    pattern: str
    """Regular expression of the names it goes by."""
    family: Family
    memory_gib: float
    """Upper bound of its memory in GiB."""
    bf16_peak_tflops: float | None = None
    """Dense bf16, tera FLOP/s; None where the vendor is unclear or there is no bf16."""
    hbm_gbyte_per_s: float | None = None
    """Memory bandwidth in 1e9 bytes/s."""
    link: str
    link_gbyte_per_s: float | None = None
    """Both directions of all links of one device, 1e9 bytes/s."""
    source: str

    @property
    def ridge_rows(self) -> float | None:
        """Decode rows at which bf16 arithmetic takes as long as reading the weights: peak FLOP/s over bytes/s.

        One row needs 2 FLOP for every weight of 2 bytes, so rows = (FLOP/s) / (bytes/s).
        """
        if self.bf16_peak_tflops is None or self.hbm_gbyte_per_s is None:
            return None
        return self.bf16_peak_tflops * TERA / (self.hbm_gbyte_per_s * GIGA)


def find_device(name: str) -> Device | None:
    """Return the first device whose pattern stands in ``name`` (``8x NVIDIA H100 80GB HBM3``), or None."""
    for device, pattern in _patterns():
        if pattern.search(name):
            return device
    return None


@cache
def devices() -> tuple[Device, ...]:
    """Return all known devices in the order in which names are matched."""
    text = files("steptune.hardware").joinpath("data", "devices.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    return tuple(Device.model_validate({key: value or None for key, value in row.items()}) for row in rows)


@cache
def _patterns() -> tuple[tuple[Device, re.Pattern[str]], ...]:
    return tuple((d, re.compile(rf"(?<![A-Za-z0-9])(?:{d.pattern})(?![A-Za-z0-9])", re.IGNORECASE)) for d in devices())
