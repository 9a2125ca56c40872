"""The memory forecast as a table: phases down, bytes and their largest terms across."""

import math

from steptune.core.estimate import Estimate
from steptune.core.records import Record
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


class PhaseAnswer(Record):
    """One phase: its bytes and those of its terms by name."""

    phase: str
    total: Estimate
    terms: dict[str, Estimate]


class MemoryAnswer(Record):
    """The forecast as `--json` prints it."""

    model: str
    device: str
    answer: str
    why: str
    capacity: Estimate
    phases: tuple[PhaseAnswer, ...]
    longest_sequences: float | None
    """Sequences at their longest that the engine's cache holds; None without an engine, or where nothing is kept."""
    fits_with: tuple[str, ...]
    """The smallest change that trains the same and fits; empty where it fits or none is known."""
    not_counted: tuple[str, ...]


def memory_answer(expected: Expected) -> MemoryAnswer:
    """Return the forecast with every figure as an Estimate."""
    fit = expected.fit
    sequences = fit.pool.sequences if fit.pool is not None else math.inf
    return MemoryAnswer(
        model=expected.shape.name,
        device=expected.device.name,
        answer=fit.answer,
        why=fit.why,
        capacity=fit.capacity,
        phases=tuple(
            PhaseAnswer(
                phase=phase.phase.value,
                total=phase.total,
                terms={term.name: term.estimate() for term in phase.terms},
            )
            for phase in fit.phases
        ),
        longest_sequences=sequences if math.isfinite(sequences) else None,
        fits_with=() if expected.advice is None else expected.advice.changes,
        not_counted=expected.shape.omits,
    )
