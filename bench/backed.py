"""Is every measured number really in the input? Looks for it among the numbers near the line it is said to stand on."""

import re

from steptune.core.estimate import Source
from steptune.core.finding import Diagnosis, FindingKind
from steptune.readers.lines import clean

LINES_ABOVE, LINES_BELOW = 3, 250
"""Lines that are searched: a record wrapped at 20 columns goes on for many rows."""

TOLERANCE = 1e-6
"""Relative difference that converting a unit may make."""

SCALES = (1.0, 1e-3, 60.0, 3600.0)
"""Seconds in the units that logs use: seconds, milliseconds, minutes, hours."""

_COLOUR = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_NUMBER = re.compile(r"(?:\d[\d,_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_CLOCK = re.compile(r"(?:(\d+)\s*h\s*)?(?:(\d+)\s*m\s*)(?:(\d+(?:\.\d+)?)\s*s)?")


def unbacked_times(diagnosis: Diagnosis, data: bytes) -> list[str]:
    """Return the measured times of a single step that stand nowhere near their line."""
    profile = diagnosis.paste.profile
    lines = data.replace(b"\0", b"").decode("utf-8", errors="replace").split("\n")
    spans = [span for role in (profile.roles if profile else ()) for span in role.phases]
    single = [s for s in spans if s.origin and s.seconds.source is Source.MEASURED and s.seconds.n in (None, 1)]
    return [
        f"`{span.origin.key}` is said to be {span.seconds.value} s"
        for span in single
        if span.origin and not _stands_near(span.seconds.value, lines, span.origin.line)
    ]


def unplaced_findings(diagnosis: Diagnosis) -> list[str]:
    """Return the findings that name no line of the input.

    What cannot be claimed needs none, and neither does a sum that does not add up: it is about many lines.
    """
    num_lines = diagnosis.paste.num_lines
    return [
        f"`{finding.code}` names no line of the input"
        for finding in diagnosis.findings
        if finding.kind not in (FindingKind.NO_CLAIM, FindingKind.IMPLAUSIBLE)
        and not any(e.origin is not None and 1 <= e.origin.line <= num_lines for e in finding.evidence)
    ]


def _stands_near(seconds: float, lines: list[str], line: int) -> bool:
    raw = lines[max(0, line - 1 - LINES_ABOVE) : line + LINES_BELOW]
    near = [clean(text) for text in raw]
    # as they stand, cleaned, and joined as a terminal's wrapping parted them, in the middle of a number too
    return any(_holds(text, seconds) for text in ("\n".join(near), "".join(near), _COLOUR.sub("", "\n".join(raw))))


def _holds(text: str, seconds: float) -> bool:
    held = [scale * value for value in map(_value, _NUMBER.findall(text)) for scale in SCALES]
    held += [3600 * float(h or 0) + 60 * float(m or 0) + float(s or 0) for h, m, s in _CLOCK.findall(text)]
    return any(abs(seconds - value) <= TOLERANCE * abs(seconds) + 1e-12 for value in held)


def _value(written: str) -> float:
    return float(written.replace(",", "").replace("_", "") or "nan")
