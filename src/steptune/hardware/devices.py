"""Facts about devices: what memory a card can have at most, and how many rows fill it.

The surprise: a name is often not a card. ``A100`` is sold with 40 and 80 GB, so an unspecific name gets the larger
size: the table answers "can this number be true?", not "what do you have?".
"""

import csv
import re
from functools import cache
from importlib.resources import files
from typing import Literal

from steptune.core.errors import DeviceError, explain, nearest
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
    usable_gib: float | None = None
    """What a driver reported of it, in GiB; None where no public report was found."""
    bf16_peak_tflops: float | None = None
    """Dense bf16, tera FLOP/s; None where the vendor is unclear or there is no bf16."""
    fp8_peak_tflops: float | None = None
    """Dense fp8, tera FLOP/s."""
    hbm_gbyte_per_s: float | None = None
    """Memory bandwidth in 1e9 bytes/s."""
    link: str
    link_gbyte_per_s: float | None = None
    """Both directions of all links of one device, 1e9 bytes/s."""
    nic_gbyte_per_s: float | None = None
    """Network of one device, one direction, in the vendor's usual node; a cluster may have less."""
    source: str

    @property
    def ridge_rows(self) -> float | None:
        """Decode rows at which bf16 arithmetic takes as long as reading the weights: peak FLOP/s over bytes/s.

        One row needs 2 FLOP for every weight of 2 bytes, so rows = (FLOP/s) / (bytes/s).
        """
        if self.bf16_peak_tflops is None or self.hbm_gbyte_per_s is None:
            return None
        return self.bf16_peak_tflops * TERA / (self.hbm_gbyte_per_s * GIGA)


def named_device(name: str) -> Device:
    """Return the device of that name.

    Raises:
        DeviceError: it is not in the table; the message has the nearest names and what to give instead.
    """
    device = find_device(name)
    if device is None:
        raise DeviceError(
            explain(
                "the facts of this device are not known",
                got=f"`{name}`",
                allowed=", ".join(device.name for device in devices()),
                hint=f"{_near(name)} A device that is not in the table cannot be forecast: measure on it",
            )
        )
    return device


def find_device(name: str) -> Device | None:
    """Return the first device whose pattern stands in ``name`` (``8x NVIDIA H100 80GB HBM3``), or None."""
    for device, pattern in _patterns():
        if pattern.search(name):
            return device
    return None


@cache
def devices() -> tuple[Device, ...]:
    """Return all known devices in the order in which names are matched."""
    rows = _rows("devices.csv")
    return tuple(Device.model_validate({key: value or None for key, value in row.items()}) for row in rows)


@cache
def figure_sources() -> dict[tuple[str, str], str]:
    """Return the source of figures by (device, field) where it is not the row's own `source`."""
    return {(row["device"], row["field"]): row["source"] for row in _rows("sources.csv")}


def source_of(device: Device, field: str) -> str:
    """Return where a figure of ``device`` comes from."""
    return figure_sources().get((device.name, field), device.source)


def _near(name: str) -> str:
    hint = nearest(name.upper(), [device.name.upper() for device in devices()])
    return hint if hint.startswith("did you mean") else "No name of the table is near it."


def _rows(file: str) -> list[dict[str, str]]:
    text = files("steptune.hardware").joinpath("data", file).read_text(encoding="utf-8")
    return list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))


@cache
def _patterns() -> tuple[tuple[Device, re.Pattern[str]], ...]:
    return tuple((d, re.compile(rf"(?<![A-Za-z0-9])(?:{d.pattern})(?![A-Za-z0-9])", re.IGNORECASE)) for d in devices())
