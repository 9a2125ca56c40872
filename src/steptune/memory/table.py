"""Memory is not monotone: a smaller buffer that left less free memory, in a table of two runs (N08).

A ratio lowered from 0.5 to 0.45 cut what PyTorch held by 2 GB and raised fragmentation by 6 GB; free memory fell by
half. So there is no interpolating between two settings: the one that is kept must have been run.
"""

import re

from steptune.core.finding import Evidence, Finding, FindingKind, Remedy, Severity
from steptune.core.paste import Excerpt, Paste

_SETTING = r"(?:ratio|utilization|util|fraction)\D{0,3}(\d+(?:\.\d*)?)"
_HEADER = re.compile(rf"\|[^|\n]*{_SETTING}[^|\n]*\|[^|\n]*{_SETTING}[^|\n]*\|", re.IGNORECASE)
_FREE = re.compile(r"\|\W*free[^|\n]*\|\W*(\d+(?:\.\d*)?) ?Gi?B\W*\|\W*(\d+(?:\.\d*)?) ?Gi?B", re.IGNORECASE)
_FRAGMENTED = re.compile(
    r"\|[^|\n]*fragmentation[^|\n]*\|\W*(\d+(?:\.\d*)?) ?Gi?B\W*\|\W*(\d+(?:\.\d*)?) ?Gi?B", re.IGNORECASE
)


def not_monotone_finding(paste: Paste) -> Finding | None:
    """Return the finding where a table shows less free memory at the smaller share."""
    rows = (row for excerpt in paste.excerpts if "|" in excerpt.text for row in (*excerpt.context, excerpt.text))
    text = "\n".join(dict.fromkeys(rows))
    header, free = _HEADER.search(text), _FREE.search(text)
    if header is None or free is None:
        return None
    shares = float(header[1]), float(header[2])
    left = float(free[1]), float(free[2])
    if shares[0] == shares[1] or (shares[0] < shares[1]) == (left[0] > left[1]):
        return None
    fragmented = _FRAGMENTED.search(text)
    extra = f"; fragmentation {fragmented[1]} -> {fragmented[2]} GB" if fragmented else ""
    origin = next(excerpt for excerpt in paste.excerpts if _is_of(excerpt, free[0])).origin
    return Finding(
        code="memory/not_monotone",
        kind=FindingKind.MEMORY,
        severity=Severity.WARNING,
        title=f"The smaller share ({shares[0]:g} -> {shares[1]:g}) left less free: {left[0]:g} -> {left[1]:g} GB",
        evidence=(Evidence(text=f"free {left[0]:g} -> {left[1]:g} GB{extra}", origin=origin),),
        remedies=(
            Remedy(
                text="Do not interpolate between two settings and do not go on lowering blindly: run one whole step, "
                "weight sync included, at the value that will be used",
                source="https://github.com/NVIDIA-NeMo/RL/issues/2471",
            ),
        ),
    )


def _is_of(excerpt: Excerpt, row: str) -> bool:
    return row.splitlines()[0].strip() in excerpt.text
