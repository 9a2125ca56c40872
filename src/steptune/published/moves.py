"""Known changes that treat a bottleneck, in each framework's own keys, each with its source.

The surprise: a change is an operation on the value in force, not a value. ``*2`` means nothing while the value is
unknown, so such a change is not offered then.
"""

import re
from functools import cache
from typing import Literal

from steptune.core.bottleneck import BottleneckKind
from steptune.core.knob import EFFECT_ORDER, Effect
from steptune.core.records import Record
from steptune.published.table import read_rows

_OPERATION = re.compile(r"^(?P<key>\S+) (?P<op>!=|=|\*|/|\+|flag|drop)(?P<value>[^<\s]*)(?:<=(?P<limit>\S+))?$")


class Step(Record):
    """One key of a move: ``Step(key="...gpu_memory_utilization", op="+", value="0.1", limit="0.85")``."""

    key: str
    op: Literal["=", "!=", "*", "/", "+", "flag", "drop"]
    """``=`` set; ``!=`` set unless the user states it so; ``*``, ``/``, ``+`` of the value in force; ``flag`` add a
    switch; ``drop`` take back a switch that the user has set."""
    value: str = ""
    limit: str = ""
    default: str = ""
    """Value in force when the user states none; empty when unknown."""


class Move(Record):
    """One change, of one key or of several that belong together."""

    framework: str
    kinds: tuple[BottleneckKind, ...]
    steps: tuple[Step, ...]
    needs: tuple[str, str] | None = None
    """Setting that must be in force: key and value."""
    not_with: tuple[BottleneckKind, ...] = ()
    """Causes beside which it is pointless: more KV cache for a batch of 16."""
    touches: Effect
    """What it may do besides speed; changes of the algorithm are not in the table."""
    text: str
    """Why it helps, a clause without full stop."""
    source: str


def moves(framework: str, kind: BottleneckKind) -> tuple[Move, ...]:
    """Return the moves of ``framework`` against ``kind``, safest first; none for a framework without rows."""
    found = [move for move in all_moves() if move.framework == framework and kind in move.kinds]
    return tuple(sorted(found, key=lambda move: EFFECT_ORDER.index(move.touches)))


@cache
def all_moves() -> tuple[Move, ...]:
    """Return every row of the table."""
    return tuple(_move(row) for row in read_rows("moves.csv"))


def _move(row: dict[str, str]) -> Move:
    needs = tuple(row["needs"].split("=", 1)) if row["needs"] else None
    return Move.model_validate(
        {
            "framework": row["framework"],
            "kinds": row["kinds"].split(";"),
            "steps": [_step(text, row["default"]) for text in row["changes"].split(" & ")],
            "needs": needs,
            "not_with": row["not_with"].split(";") if row["not_with"] else (),
            "touches": row["touches"],
            "text": row["text"],
            "source": row["source"],
        }
    )


def _step(text: str, default: str) -> Step:
    found = _OPERATION.match(text)
    if found is None:
        raise ValueError(f"moves.csv: changes must read `key operation`, got {text!r}; hint: see the head of the file")
    parts = found.groupdict(default="")
    return Step.model_validate({**parts, "default": "" if default == "-" else default})
