"""Host memory that a launcher reserves and no node has: the job waits or stops before anything runs out.

The surprise: such a line names every resource that was asked for, so that it is about memory only where the memory is
what lacks; a list of wishes alone does not tell which of them could not be met.
"""

import re
from typing import final

from steptune.core.finding import Evidence, Finding, FindingKind, Remedy, Severity
from steptune.core.paste import Excerpt, ExcerptKind, Paste
from steptune.core.records import Record

_KINDS = (ExcerptKind.OOM, ExcerptKind.ERROR, ExcerptKind.WARNING, ExcerptKind.MEMORY)
_NUMBER = r"(?P<%s>\d+(?:\.\d+)?)"
_BOTH = (
    re.compile(rf"Required: .{{0,200}}?{_NUMBER % 'asked'} GB memory\b.{{0,200}}?{_NUMBER % 'there'} GB memory"),
    re.compile(
        rf"requires .{{0,300}}?memory: {_NUMBER % 'asked'} GiB.{{0,300}}? remaining .{{0,300}}?"
        rf"[^_]memory: {_NUMBER % 'there'} GiB"
    ),
)
"""AReaL's launcher (it prints GB and means 2^30 bytes) and Ray's scheduler before 1.3."""

_ASKED = re.compile(rf"[Rr]esource requests? (?:cannot be scheduled[^{{]*)?\{{[^}}]*'memory': {_NUMBER % 'asked'}")
"""Ray's scheduler since, in bytes."""

_REFUSED = re.compile(r"nodes? (?:are|is) available: .*\bInsufficient memory\b")
"""The scheduler of Kubernetes."""

_BYTES_PER_GIB = 2.0**30

_SOURCE = "https://docs.ray.io/en/latest/ray-core/scheduling/memory-management.html"

_REMEDY = Remedy(
    text="Lower the memory that each worker reserves (Ray books it and never measures it: what the worker really "
    "takes is a matter of its own), start fewer workers a node, or take a node with more",
    source=_SOURCE,
)
_AREAL = Remedy(
    text="AReaL's launcher books `mem_per_model_worker` for each worker and `mem_per_master_worker` once, 90,000 and "
    "20,000 MB where they are not set: give both what the node has",
    source="https://github.com/areal-project/AReaL/issues/14",
)


@final
class _Wish(Record):
    """What was asked for and what was there, in GiB; None where the line does not say."""

    asked_gib: float | None
    there_gib: float | None


def reservation_finding(paste: Paste) -> Finding | None:
    """Return the first reservation of host memory that could not be met."""
    for excerpt in paste.excerpts:
        wish = _wish(excerpt.text) if excerpt.kind in _KINDS else None
        if wish is not None:
            return _finding(excerpt, wish, paste.framework)
    return None


def _wish(text: str) -> _Wish | None:
    for pattern in _BOTH:
        if (both := pattern.search(text)) is not None:
            asked, there = float(both["asked"]), float(both["there"])
            return _Wish(asked_gib=asked, there_gib=there) if asked > there else None
    if (alone := _ASKED.search(text)) is not None:
        return _Wish(asked_gib=float(alone["asked"]) / _BYTES_PER_GIB, there_gib=None)
    return _Wish(asked_gib=None, there_gib=None) if _REFUSED.search(text) else None


def _finding(excerpt: Excerpt, wish: _Wish, framework: str | None) -> Finding:
    is_sure = wish.asked_gib is None or wish.there_gib is not None
    if wish.there_gib is not None:
        what = f"{wish.asked_gib:.2f} GiB of the node's own memory are reserved and {wish.there_gib:.2f} GiB are there"
    elif wish.asked_gib is not None:
        what = (
            f"A worker that reserves {wish.asked_gib:.2f} GiB of a node's own memory found no place; the text does not "
            "say which of the resources it asks for is missing"
        )
    else:
        what = "No node has as much of its own memory left as is asked for"
    return Finding(
        code="oom/host",
        kind=FindingKind.MEMORY,
        severity=Severity.FAULT if is_sure else Severity.WARNING,
        title=f"{what}: the job cannot start, nothing has run out of memory and no device is concerned",
        evidence=(Evidence(text=excerpt.text[:300], origin=excerpt.origin),),
        remedies=(_AREAL, _REMEDY) if framework == "areal" else (_REMEDY,),
    )
