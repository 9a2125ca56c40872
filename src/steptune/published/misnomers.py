"""Metric names and settings whose meaning changed between versions, or is not what the name says."""

from functools import cache

from steptune.core.records import Record
from steptune.published.table import read_rows


class Misnomer(Record):
    """One name: ``Misnomer(framework="nemo_rl", key="exposed_generation", meaning="is the wait ...", ...)``."""

    framework: str
    """``any`` for names that several frameworks print alike."""
    key: str
    only_when: str = ""
    """``two_kinds`` or ``beside KEY``: what the input must show before the name misleads; empty for always."""
    meaning: str
    """What it really is: the rest of a sentence that begins with the name."""
    source: str


@cache
def misnomers() -> tuple[Misnomer, ...]:
    """Return all known names."""
    return tuple(Misnomer.model_validate(row) for row in read_rows("misnomers.csv"))
