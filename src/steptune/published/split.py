"""Which public sources a model may be fitted on and which only score it; frozen before any fit.

The unit is the owner of the repository (organisation or person), not the file: one recipe reappears in every release
of its owner's documents, and a row in fit with its twin in test would make a forecast look better than it is.

Draw: owners in order of their number of rows (most first, equal counts by name), taken in pairs; of each pair the one
whose SHA-256 of the lower-case name is smaller goes to `test`, the other to `fit`. Pairs keep the two large owners on
opposite sides; nothing but row counts and names enters, so no result can have moved a source.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import cache

from steptune.core.errors import ReadError, explain
from steptune.core.records import Record
from steptune.published.table import read_rows

SPLIT_TABLE = "public_split.csv"
"""The frozen draw. A test pins its SHA-256; a new table of runs does not redraw it."""

_OWNER = re.compile(r"(?:https://github\.com/)?(?P<owner>[A-Za-z0-9][A-Za-z0-9-]*)/[A-Za-z0-9_.-]+")
"""``owner/repository`` at the start of a source, with or without the host."""


class Side(StrEnum):
    """What a source may be used for."""

    FIT = "fit"
    """Constants may be fitted on it."""
    TEST = "test"
    """Scores only: no constant, prior or rule may be chosen by its figures."""


class Drawn(Record):
    """One source's place. Example: ``Drawn(owner="thudm", num_rows=2, sha256_12="21f43beb5a00", side="test")``."""

    owner: str
    """Lower-case owner of the repository."""
    num_rows: int
    """Rows in the table of runs on the day of the draw."""
    sha256_12: str
    """First 12 hex digits of the SHA-256 of ``owner``."""
    side: Side
    """The side drawn."""


def owner_of(source: str) -> str:
    """Return the lower-case owner of the repository a source names.

    Raises:
        ReadError: the source does not start with ``owner/repository``.

    >>> owner_of("NVIDIA-NeMo/RL:docs/about/performance-summary.md@cff17f83b")
    'nvidia-nemo'
    """
    found = _OWNER.match(source)
    if found is None:
        raise ReadError(
            explain(
                "a source must start with its repository",
                got=source,
                allowed="`owner/repository` or https://github.com/owner/repository",
                hint="name the repository first, then path and commit",
            )
        )
    return found["owner"].lower()


def draw(num_rows_by_owner: Mapping[str, int]) -> Sequence[Drawn]:
    """Return the draw of the module's docstring; an owner left without a pair goes to ``test``."""
    order = sorted(num_rows_by_owner, key=lambda owner: (-num_rows_by_owner[owner], owner))
    pairs = [order[start : start + 2] for start in range(0, len(order), 2)]
    tests = {min(pair, key=_sha256) for pair in pairs}
    return [
        Drawn(
            owner=owner,
            num_rows=num_rows_by_owner[owner],
            sha256_12=_sha256(owner)[:12],
            side=Side.TEST if owner in tests else Side.FIT,
        )
        for owner in order
    ]


def count_rows(sources: Sequence[str]) -> Mapping[str, int]:
    """Return how many of the sources each owner has."""
    return Counter(owner_of(source) for source in sources)


@cache
def frozen_split() -> Mapping[str, Side]:
    """Return the committed draw, by owner."""
    return {drawn.owner: drawn.side for drawn in map(Drawn.model_validate, read_rows(SPLIT_TABLE))}


def side_of(source: str) -> Side:
    """Return the side of a source. One that came after the draw scores only: it is ``test``."""
    return frozen_split().get(owner_of(source), Side.TEST)


def _sha256(owner: str) -> str:
    return hashlib.sha256(owner.encode()).hexdigest()
