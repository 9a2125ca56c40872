"""The performance knobs of every framework: what they treat, what they touch, what they need.

The surprise: a knob is listed because turning it changes speed or memory, so most keys of a framework are not here;
`published.keys` has them all.
"""

from dataclasses import dataclass
from functools import cache
from typing import Literal, final

from steptune.published.table import read_rows

Semantics = Literal["preserving", "precision", "staleness", "algorithm"]


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Knob:
    """One knob.

    Example: ``Knob(framework="trl", key="vllm_gpu_memory_utilization", group="rollout_engine", type="float",
    values="(0,1)", default="0.3", semantics="preserving", treats=("gen_throughput", "gen_memory"), ...)``.
    """

    framework: str
    key: str
    """As `Setting.key` spells it; ``...vllm.*`` stands for anything below."""
    group: str
    type: str
    values: str
    """Allowed values, in words or as a set."""
    default: str
    """As the source writes it, with a word about computed ones."""
    semantics: Semantics
    """preserving: same mathematics; algorithm: changes or is what is trained, never a speed-up."""
    treats: tuple[str, ...]
    """Causes it acts on; empty when it serves observation or must be held fixed."""
    constraint: str
    """What it needs or trades."""
    source: str


@cache
def knobs(framework: str) -> tuple[Knob, ...]:
    """Return the knobs of ``framework`` in the table's order; empty for an unknown one."""
    return tuple(_knob(row) for row in read_rows("knobs.csv") if row["framework"] == framework)


def _knob(row: dict[str, str]) -> Knob:
    return Knob(
        framework=row["framework"],
        key=row["key"],
        group=row["group"],
        type=row["type"],
        values=row["values"],
        default=row["default"],
        semantics=_semantics(row["semantics"]),
        treats=tuple(cause for cause in row["treats"].split(";") if cause and not cause.startswith(("none", "-"))),
        constraint=row["constraint"],
        source=row["source"],
    )


def _semantics(text: str) -> Semantics:
    for known in ("preserving", "precision", "staleness", "algorithm"):
        if text == known:
            return known
    raise ValueError(f"knobs.csv: unknown semantics `{text}`; hint: preserving, precision, staleness or algorithm")
