"""Does it fit, and the smallest change that keeps the mathematics and would make it fit.

A phase fits where its upper bound at the longest lengths leaves a twentieth of the device free on the fullest rank,
does not fit where even a part of the way to its lower bound at the *likely* lengths exceeds the device, and is too
close to call between. The surprise: an engine can fail *inside* its share: no room for one longest sequence.
"""

import math
from dataclasses import dataclass
from typing import Literal, final

from steptune.core.estimate import Estimate, Source
from steptune.core.units import BYTES_PER_GIB, gib
from steptune.footprint.changes import CHANGES
from steptune.footprint.engine import Pool, pool, share_bytes
from steptune.footprint.layout import JobLayout
from steptune.footprint.lengths import likely
from steptune.footprint.phases import PhaseBytes, PhaseName, held_by_trainer, phase_bytes
from steptune.footprint.term import total
from steptune.hardware.devices import Device, source_of
from steptune.shapes.shape import ModelShape

Answer = Literal["fits", "does not fit", "too close to call"]

LONGEST = "the longest lengths"
LIKELY = "lengths that are likely to come"

REPORTED_FRAC = 0.983
"""Part of the marketed memory a driver reports where no report is in the table: the smallest of the Hopper, Ada and
Ampere cards that have one (23.6 of 24 GiB, RTX 4090)."""


UNEVEN_FRAC = 0.05
"""How much more the fullest rank of a job holds than the others, whose share is what is counted: 75,307 against about
71,550 MiB on 32 H800 (https://github.com/NVIDIA-NeMo/Automodel/issues/1068). One device has no fuller rank."""


REFUSED_FRAC = 0.25
"""Part of the way from the middle to the lower bound that must exceed the device before a job is refused; the bounds
are the extremes of every term. Chosen with `SAFE_FRAC` on the first three sets of public memory cases (2026-12-01),
once refusals were judged at likely lengths: at half the way six more of 309 jobs were *too close* and two fewer of the
198 that fitted were refused; at none of it four fewer were too close and one more was refused."""


SAFE_FRAC = 0.95
"""Part of the device that the upper bound may fill in a job that fits. The rest is for what no term counts: buffers of
communication and of matrix products, blocks that are cached and do not match. Of the 14 of 111 labelled jobs that ran
out and were called fits without it, five had counted to 95 % or more; seven of 198 that fitted had too."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Fit:
    """The answer for one layout."""

    answer: Answer
    capacity: Estimate
    phases: tuple[PhaseBytes, ...]
    tightest: PhaseName
    """The phase with the least room."""
    pool: Pool | None
    """The engine's cache; None without an engine."""
    why: str
    """One sentence."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Advice:
    """Changes, cheapest first, and the answer with all of them."""

    changes: tuple[str, ...]
    fit: Fit


def capacity_of(device: Device) -> Estimate:
    """Return the bytes a process can use of a device, as a driver reports them."""
    if device.usable_gib is not None:
        value, note = device.usable_gib, source_of(device, "usable_gib")
    else:
        value, note = REPORTED_FRAC * device.memory_gib, f"{REPORTED_FRAC} of the marketed size; {device.source}"
    return Estimate(value=value * BYTES_PER_GIB, unit="bytes", source=Source.PUBLISHED, note=note)


def judge(shape: ModelShape, job: JobLayout, capacity: Estimate) -> Fit:
    """Return whether every phase of ``job`` fits into ``capacity``; the phases are those at the longest lengths."""
    phases = phase_bytes(shape, job, capacity.value)
    tightest = max(phases, key=lambda phase: phase.total.value)
    left = _pool(shape, job, capacity.value)
    why = _refusal(shape, job, phases, left, capacity.value)
    answer: Answer = "does not fit"
    if why is None:
        answer, why = _doubt(phases, tightest, capacity.value, _uneven_frac(job))
    return Fit(answer=answer, capacity=capacity, phases=phases, tightest=tightest.phase, pool=left, why=why)


def smallest_change(shape: ModelShape, job: JobLayout, capacity: Estimate) -> Advice | None:
    """Return the cheapest change that makes ``job`` fit, else several together; None where it fits or nothing helps.

    Single changes are tried from the cheapest on; then they are added up in that order, and what proves unnecessary is
    taken out again.
    """
    if judge(shape, job, capacity).answer == "fits":
        return None
    for change in CHANGES:
        changed = change.apply(job)
        if changed is not None and (fit := judge(shape, changed, capacity)).answer == "fits":
            return Advice(changes=(change.text(job, changed),), fit=fit)
    kept = _added_up(shape, job, capacity)
    if kept is None:
        return None
    needed = [
        i for i in range(len(kept)) if _with(shape, job, capacity, [*kept[:i], *kept[i + 1 :]])[1].answer != "fits"
    ]
    if _with(shape, job, capacity, [kept[i] for i in needed])[1].answer == "fits":
        kept = [kept[i] for i in needed]
    texts, fit = _with(shape, job, capacity, kept)
    return Advice(changes=texts, fit=fit)


def _added_up(shape: ModelShape, job: JobLayout, capacity: Estimate) -> list[int] | None:
    chosen: list[int] = []
    for i in range(len(CHANGES)):
        chosen.append(i)
        if _with(shape, job, capacity, chosen)[1].answer == "fits":
            return chosen
    return None


def _with(shape: ModelShape, job: JobLayout, capacity: Estimate, chosen: list[int]) -> tuple[tuple[str, ...], Fit]:
    texts: list[str] = []
    for i in chosen:
        changed = CHANGES[i].apply(job)
        if changed is not None:
            texts.append(CHANGES[i].text(job, changed))
            job = changed
    return tuple(texts), judge(shape, job, capacity)


def _pool(shape: ModelShape, job: JobLayout, capacity_bytes: float) -> Pool | None:
    if job.rollout is None:
        return None
    held = total(held_by_trainer(shape, job.train)).value if job.is_colocated else 0.0
    return pool(shape, job.rollout, share_bytes(job.rollout, capacity_bytes, held))


def _refusal(
    shape: ModelShape, job: JobLayout, phases: tuple[PhaseBytes, ...], left: Pool | None, capacity_bytes: float
) -> str | None:
    """Return why the job will run out; None where it need not."""
    if left is not None and left.sequences < 1:
        return (
            f"rollout: inside its share the engine has {gib(left.num_bytes):.1f} GiB for the cache and one longest "
            f"sequence takes {gib(left.bytes_per_sequence):.1f} GiB"
        )
    usual = job.model_copy(update={"train": likely(job.train)})
    coming = phases if usual == job else phase_bytes(shape, usual, capacity_bytes)
    lows = [phase for phase in coming if _refusing(phase.total) > capacity_bytes]
    if not lows:
        return None
    largest = max(lows, key=lambda phase: phase.total.value)
    return _sentence(largest, capacity_bytes, LONGEST if usual == job else LIKELY)


def _doubt(
    phases: tuple[PhaseBytes, ...], tightest: PhaseBytes, capacity_bytes: float, uneven_frac: float
) -> tuple[Answer, str]:
    if all(fullest_bytes(phase.total, uneven_frac) <= SAFE_FRAC * capacity_bytes for phase in phases):
        return "fits", _sentence(tightest, capacity_bytes, LONGEST)
    widest = max(phases, key=lambda phase: phase.total.high or 0.0)
    return "too close to call", _sentence(widest, capacity_bytes, LONGEST)


def fullest_bytes(size: Estimate, uneven_frac: float) -> float:
    """Return the upper bound on the fullest rank.

    How uneven the ranks are has nothing to do with how far the terms are off, so the distances add as squares, as those
    of the terms do.
    """
    return size.value + math.hypot((size.high or size.value) - size.value, uneven_frac * size.value)


def _uneven_frac(job: JobLayout) -> float:
    return UNEVEN_FRAC if job.train.num_devices > 1 else 0.0


def _refusing(size: Estimate) -> float:
    return size.value - REFUSED_FRAC * (size.value - (size.low or 0.0))


def _sentence(phase: PhaseBytes, capacity_bytes: float, lengths: str) -> str:
    size = phase.total
    return (
        f"{phase.phase}: {gib(size.value):.1f} GiB ({gib(size.low or 0):.1f} to {gib(size.high or 0):.1f}) "
        f"of {gib(capacity_bytes):.1f} GiB at {lengths}"
    )
