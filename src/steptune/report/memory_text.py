"""The memory forecast as a table: phases down, bytes and their largest terms across."""

from steptune.core.units import gib
from steptune.footprint.fit import Fit
from steptune.footprint.phases import PhaseBytes
from steptune.memory.expected import Expected
from steptune.memory.foreseen import SMALL_FRAC


def memory_text(expected: Expected) -> str:
    """Return the answer, one block a phase with every term and its source, and the smallest change."""
    fit = expected.fit
    lines = [
        f"model      {expected.shape.name}",
        f"device     {expected.device.name}, {gib(fit.capacity.value):.1f} GiB ({fit.capacity.note})",
        f"trainer    {expected.layout.train.num_devices} devices",
        f"memory     {fit.answer}: {fit.why}",
        *_cache(fit),
        *(line for phase in fit.phases for line in _phase(phase)),
        *(f"not counted: {part}" for part in expected.shape.omits),
    ]
    if expected.advice is not None:
        lines.append("fits with  " + "; ".join(expected.advice.changes))
    elif fit.answer != "fits":
        lines.append("fits with  none of the known changes that train the same: more devices, or another layout")
    return "\n".join(lines)


def _cache(fit: Fit) -> tuple[str, ...]:
    if fit.pool is None:
        return ()
    each = gib(fit.pool.bytes_per_sequence)
    return (f"cache      {fit.pool.sequences:,.0f} longest sequences at once, {each:.3g} GiB each",)


def _phase(phase: PhaseBytes) -> list[str]:
    size = phase.total
    head = (
        f"{phase.phase.value:<11}{gib(size.value):7.1f} GiB ({gib(size.low or 0.0):.1f} to {gib(size.high or 0.0):.1f})"
    )
    terms = sorted(phase.terms, key=lambda term: -term.mid)
    rows = [
        f"  {term.name:<20}{gib(term.mid):7.1f}  {term.source}" for term in terms if term.mid >= SMALL_FRAC * size.value
    ]
    return [head, *rows]
