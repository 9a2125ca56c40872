"""What a stranger learns in ten seconds: what was read, what to fix first, and where the time goes.

Surprise: a fault of the training or the configuration comes before any talk of speed; a run that learns nothing is
not worth making faster.
"""

from dataclasses import dataclass
from typing import final

from steptune.core.bottleneck import BottleneckKind
from steptune.core.finding import Diagnosis, Finding, FindingKind, Severity
from steptune.core.paste import DeviceClaim, Paste
from steptune.core.phase import Phase
from steptune.report.numbers import count_text, value_text

FIRST_KINDS = (FindingKind.HEALTH, FindingKind.MEMORY, FindingKind.MISMATCH, FindingKind.LINT, FindingKind.IMPLAUSIBLE)
"""Faults in the order in which to fix them."""

NO_TIMING = "no timing in this input: nothing is claimed about speed"
"""What is said where no number is a time."""

PARTIAL_TIMING = "no timing of the phases in this input: nothing is claimed about speed"
"""What is said where only whole steps or a progress bar are timed."""

UNTIMED_STEP = "phases are timed, but not their step: no bottleneck is named and nothing is claimed about speed"
"""What is said where single phases are timed and the step is not."""

NO_STEP_TIMES = "no step times in this input: no ceiling and no forecast is claimed"
"""What is said where other lines (a mean sample, a table of runs) tell what is slow."""

MAX_FIRST = 3
"""Faults named at the top; the rest stand in their sections."""

MAX_TITLE = 160
"""Characters of a title at the top when no step time gives it weight: two lines."""

GENERATION = frozenset(
    {
        BottleneckKind.ROLLOUT_BOUND,
        BottleneckKind.LONG_TAIL,
        BottleneckKind.WASTED_GENERATION,
        BottleneckKind.SMALL_DECODE_BATCH,
        BottleneckKind.IDLE_ENGINES,
    }
)
"""Causes inside generation: for all others it is worth saying that faster generation cannot help."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Headline:
    """The top of an answer.

    Example: facts "verl, 3 steps read, a step takes 20 m 10 s", no fault, speed "trainer-bound: ...".
    """

    facts: str
    first: tuple[Finding, ...]
    """Faults to fix before anything else, at most `MAX_FIRST`."""
    num_more_faults: int
    """Faults that are not among `first`."""
    speed: tuple[str, ...]
    """Where the time goes, or why nothing is said about it."""
    has_timing: bool


def headline(diagnosis: Diagnosis) -> Headline:
    """Return the top of the answer."""
    faults = [f for kind in FIRST_KINDS for f in diagnosis.findings if f.kind is kind and f.severity is Severity.FAULT]
    return Headline(
        facts=facts_text(diagnosis.paste),
        first=tuple(faults[:MAX_FIRST]),
        num_more_faults=max(0, len(faults) - MAX_FIRST),
        speed=_speed(diagnosis),
        has_timing=diagnosis.paste.profile is not None,
    )


def facts_text(paste: Paste) -> str:
    """Return what was read: framework, steps, step time, devices."""
    parts = [" ".join(part for part in (paste.framework or "unknown framework", paste.framework_version) if part)]
    if not (paste.profile or paste.settings or paste.series or paste.excerpts):
        return f"{parts[0]}: nothing was recognised in {count_text(paste.num_lines, 'line')}"
    parts.append(f"{count_text(paste.num_steps_seen, 'step')} read" if paste.num_steps_seen else "no step read")
    if paste.profile is not None:
        step, averaged = paste.profile.step_time, count_text(paste.profile.num_steps, "step")
        warm_up = f", {paste.profile.num_warmup} left out as warm-up" if paste.profile.num_warmup else ""
        parts.append(f"a step takes {value_text(step.value, step.unit)} ({step.source}, {averaged}{warm_up})")
    if paste.settings:
        parts.append(count_text(len(paste.settings), "setting"))
    read = ", ".join([*parts, *_devices(paste.devices)])
    return "; ".join([read, *input_notes(paste)])


def input_notes(paste: Paste) -> list[str]:
    """Return what was read once, passed over or left out of the input."""
    return [note.text for note in paste.notes if note.is_about_input]


def name_of(code: str) -> str:
    """Return a finding's code as a word: ``trainer_bound`` is ``trainer-bound``."""
    return code.replace("_", "-")


def _short(sentence: str) -> str:
    """Return the sentence up to the last break before `MAX_TITLE` characters; the whole one stands in its section."""
    if len(sentence) <= MAX_TITLE:
        return sentence
    at = max(sentence.rfind(mark, 0, MAX_TITLE) for mark in ("; ", ", ", ": ", " "))
    return f"{sentence[: max(at, 1)]} ..."


def _devices(claim: DeviceClaim | None) -> list[str]:
    if claim is None or (claim.name is None and claim.count is None):
        return []
    if claim.count is None:
        return [str(claim.name)]
    return [f"{claim.count} x {claim.name}" if claim.name else count_text(claim.count, "device")]


def _speed(diagnosis: Diagnosis) -> tuple[str, ...]:
    profile = diagnosis.paste.profile
    causes = [finding for finding in diagnosis.findings if finding.kind is FindingKind.BOTTLENECK]
    if profile is None:
        told = [f"{name_of(cause.code)}: {_short(cause.title)}" for cause in causes[:1]]
        silence = (
            UNTIMED_STEP if diagnosis.phases else PARTIAL_TIMING if "partial_timing" in diagnosis.codes() else NO_TIMING
        )
        return (*told, NO_STEP_TIMES if told else silence)
    if not causes:
        return ("timing was read, but no bottleneck can be named from it",)
    lead = f"{name_of(causes[0].code)}: {causes[0].title}"
    free = [row.if_free.value for row in diagnosis.phases if row.phase == Phase.ROLLOUT and row.if_free is not None]
    if not free or causes[0].code in GENERATION:
        return (lead,)
    left, now = value_text(free[0], "s"), value_text(profile.step_time.value, profile.step_time.unit)
    return (lead, f"if generation were free a step would still take {left} of {now}")
