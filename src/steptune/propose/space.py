"""The knobs that may move and the moves each of them has.

Surprise: "off" and "same as now" are not moves. A value equal to the baseline's, or given twice, is dropped,
and `True` is not `1`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from steptune.core.bottleneck import Bottleneck
from steptune.core.change import Move
from steptune.core.errors import JobError, nearest
from steptune.core.job import KnobsSpec
from steptune.core.knob import Effect, KnobSpec, KnobValue, Settings


@dataclass(frozen=True, kw_only=True, slots=True)
class Axis:
    """One knob that may move: ``Axis(spec=KnobSpec(name="layout", ...), moves=(padded->sorted, padded->packed))``."""

    spec: KnobSpec
    moves: tuple[Move, ...]


def axes(
    knobs: KnobsSpec, specs: Sequence[KnobSpec], baseline: Settings, bottlenecks: Sequence[Bottleneck]
) -> list[Axis]:
    """Return movable knobs with at least one move, those that treat the largest bottlenecks first.

    Raises:
        JobError: `knobs.allow` or `knobs.pin` names a knob the framework does not have.
    """
    names = {spec.name for spec in specs}
    for name in (*knobs.allow, *knobs.pin):
        if name not in names:
            raise JobError(f"`knobs` names an unknown knob, got `{name}`; hint: {nearest(name, names)}")
    movable = [
        spec
        for spec in specs
        if spec.effect is not Effect.ALGORITHM
        and spec.name not in knobs.pin
        and (not knobs.allow or spec.name in knobs.allow)
    ]
    found = [Axis(spec=spec, moves=_moves(spec, baseline[spec.name])) for spec in movable]
    return sorted((a for a in found if a.moves), key=lambda a: -relevance(a.spec.name, bottlenecks))


def relevance(knob: str, bottlenecks: Sequence[Bottleneck]) -> float:
    """Return the summed shares of the bottlenecks that a knob treats."""
    return sum(b.share.value for b in bottlenecks if knob in b.levers)


def _moves(spec: KnobSpec, old: KnobValue) -> tuple[Move, ...]:
    new_values: list[KnobValue] = []
    for value in spec.values:
        if not any(_same(value, known) for known in [old, *new_values]):
            new_values.append(value)
    return tuple(Move(knob=spec.name, old=old, new=new) for new in new_values)


def _same(a: KnobValue, b: KnobValue) -> bool:
    return a == b and isinstance(a, bool) == isinstance(b, bool)
