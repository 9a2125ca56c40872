"""Reads the CSV tables of this package. Lines that start with ``#`` are comments."""

import csv
from collections.abc import Sequence
from importlib.resources import files


def read_rows(name: str) -> Sequence[dict[str, str]]:
    """Return the rows of ``published/data/<name>``, one mapping of column to text each.

    Raises:
        FileNotFoundError: there is no such table in the package.
    """
    text = files("steptune.published").joinpath("data", name).read_text(encoding="utf-8")
    return list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))
