"""The memory forecast as a finding: the table of bytes by phase, and the cheapest change that would make it fit.

A warning at most: a forecast that was never scored on this job is no fault of the configuration. Where the settings or
the device do not allow a count there is no finding; `steptune forecast` says what is missing.
"""

from steptune.core.errors import DeviceError, ModelError
from steptune.core.finding import Evidence, Finding, FindingKind, Remedy, Severity
from steptune.core.paste import Paste
from steptune.core.units import gib
from steptune.footprint.phases import PhaseBytes
from steptune.memory.expected import Expected, expected_memory, model_setting
from steptune.memory.stated.asked import LayoutError

SMALL_FRAC = 0.02
"""Terms below this part of their phase are left out of its line."""

SOURCE = "docs/design/memory.md"


def foreseen_finding(paste: Paste) -> Finding | None:
    """Return what the settings' memory will be, None where they do not say enough."""
    try:
        expected = expected_memory(paste)
    except (LayoutError, ModelError, DeviceError):
        return None
    fit = expected.fit
    return Finding(
        code="memory/forecast",
        kind=FindingKind.MEMORY,
        severity=Severity.INFO if fit.answer == "fits" else Severity.WARNING,
        title=f"Forecast of {expected.shape.name} on {expected.device.name}: {fit.answer}; {fit.why}",
        evidence=(*_stated(paste), *(Evidence(text=line) for line in phase_lines(expected))),
        remedies=_remedies(expected),
    )


def phase_lines(expected: Expected) -> tuple[str, ...]:
    """Return one line a phase: its bytes with their bounds, then its terms, largest first."""
    lines = [_phase_line(phase) for phase in expected.fit.phases]
    pool = expected.fit.pool
    if pool is not None:
        lines.append(f"cache inside the engine's share: {pool.sequences:,.0f} longest sequences at once")
    lines += [f"not counted: {part}" for part in expected.shape.omits if "vision" in part]
    return tuple(lines)


def _stated(paste: Paste) -> tuple[Evidence, ...]:
    """The lines of the input that name the model and the device."""
    model, devices = model_setting(paste), paste.devices
    facts: list[Evidence] = []
    if model is not None:
        facts.append(Evidence(text=f"model {model.key}={model.text}", origin=model.origin))
    if devices is not None and devices.name:
        facts.append(Evidence(text=f"device {devices.name}", origin=devices.origin))
    return tuple(facts)


def _phase_line(phase: PhaseBytes) -> str:
    size = phase.total
    terms = sorted(phase.terms, key=lambda term: -term.mid)
    said = ", ".join(f"{term.name} {gib(term.mid):.1f}" for term in terms if term.mid >= SMALL_FRAC * size.value)
    bounds = f"{gib(size.low or 0.0):.1f} to {gib(size.high or 0.0):.1f}"
    return f"{phase.phase} {gib(size.value):.1f} GiB ({bounds}): {said}"


def _remedies(expected: Expected) -> tuple[Remedy, ...]:
    advice = expected.advice
    if advice is None:
        return ()
    return (Remedy(text=f"Smallest change that trains the same and fits: {'; '.join(advice.changes)}", source=SOURCE),)
