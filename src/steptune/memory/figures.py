"""The numbers inside an out-of-memory text: needed, free, capacity, reserved but unallocated.

The surprise: one message has several wordings (torch before 2.1, torch since, its other allocator, Ascend's port of
the old one), and the free memory it states is after the allocator has already given its cache back.
"""

import math
import re
from dataclasses import dataclass
from typing import final

_NUMBER = r"(\d+(?:\.\d*)?)"
_SIZE = r"(\d+(?:\.\d+)?) ?(bytes|[KMGT]i?B)"
_UNIT_GIB = {"bytes": 2.0**-30, "K": 2.0**-20, "M": 2.0**-10, "G": 1.0, "T": 2.0**10}

_NEEDED = re.compile(rf"[Tt]ried to allocate {_SIZE}")
_NEW_TOTAL = re.compile(rf"has a total capac(?:i)?ty of {_SIZE} of which {_SIZE} is free")
_NEW_ALLOCATED = re.compile(rf"[Oo]f the allocated memory {_SIZE} is allocated by PyTorch")
_NEW_RESERVED = re.compile(rf"{_SIZE} is reserved by PyTorch but unallocated")
_NEW_MINE = re.compile(rf"this process has {_SIZE} memory in use")
_NEW_OTHERS = re.compile(rf"Process \d+ has {_SIZE} memory in use")
_OLD = re.compile(rf"{_SIZE} total capacity; {_SIZE} already allocated;(?: {_SIZE} current active;)? {_SIZE} free")
_OLD_RESERVED = re.compile(rf"{_SIZE} reserved in total by PyTorch")
_ENGINE_FREE = re.compile(
    rf"[Ff]ree memory on device(?: \w+:\d+)? \({_NUMBER}/{_NUMBER} GiB\)"
    rf"[\s\S]*?utilization \({_NUMBER}, {_NUMBER} GiB\)"
)
_KV = re.compile(
    rf"max seq len \((\d+)\)[, (]*{_NUMBER} GiB KV ?cache is needed[\s\S]*?KV ?cache memory \({_NUMBER} GiB\)"
)
_KV_FITS = re.compile(r"estimated maximum model length is (\d+)")
_KV_TOKENS = re.compile(r"max seq len \((\d+)\) is larger than the maximum number of tokens[\s\S]*?\((\d+)\)")
_ASYNC = re.compile(
    rf"Currently allocated\s*: {_SIZE} Requested\s*: {_SIZE} Device limit\s*: {_SIZE} Free \(according to CUDA\)\s*"
    rf": {_SIZE}"
)
"""The wording of torch's other allocator, cudaMallocAsync."""
_NODE = re.compile(r"was running was (\d+(?:\.\d+)?)(?: ?GB / (\d+(?:\.\d+)?) ?GB)?")
"""Ray's statement of a node's memory; a wrapped line may lose the second number."""
_KILLED = re.compile(r"name=([\w.<>:-]{1,80}), pid=\d+, memory used=(\d+(?:\.\d+)?)GB")
_RETOLD = re.compile(rf"{_SIZE} free (?:of|out of) (\d+(?:\.\d+)?)")
"""How people shorten the message: ``12.44 GiB free of 79.19``."""
_RETOLD_TOTAL = re.compile(rf"{_SIZE} total(?: capacity)?[,;] (?:of which )?{_SIZE} (?:is )?free")
"""The other order: ``95.00 GiB total capacity, 3.97 GiB free``."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Figures:
    """What one text states; None where it does not.

    Example: ``Figures(needed_gib=13.91, free_gib=8.85, capacity_gib=79.11, allocated_gib=60.49)``.
    """

    needed_gib: float | None = None
    free_gib: float | None = None
    capacity_gib: float | None = None
    allocated_gib: float | None = None
    """Held by live tensors."""
    unallocated_gib: float | None = None
    """Reserved by the allocator and not usable for this request: fragmentation."""
    others_gib: float | None = None
    """Held by other processes on the card."""
    node_used_gib: float | None = None
    """In use on the whole node, of the host's memory."""
    node_total_gib: float | None = None
    """The host's memory."""
    killed_gib: float | None = None
    """What the task that Ray chose held."""
    killed_name: str = ""
    """Its name: ``TaskRunner.__init__`` is the driver, ``WorkerDict`` a rank."""
    asked_share: float | None = None
    """Share of the card the engine was told to take."""
    sequence_tokens: int | None = None
    """Longest sequence the engine must be able to hold."""
    fitting_tokens: int | None = None
    """Longest sequence that would have fitted."""

    def shortage_gib(self) -> float | None:
        """Return how much is missing; None when it is not stated or nothing is missing."""
        if self.needed_gib is None or self.free_gib is None:
            return None
        missing = self.needed_gib - self.free_gib
        return missing if missing > 0 else None

    def is_fragmented(self, threshold_frac: float) -> bool:
        """Return whether the unusable part of the card, or of what PyTorch holds, reaches ``threshold_frac``."""
        if self.unallocated_gib is None:
            return False
        whole = self.capacity_gib or self.unallocated_gib + (self.allocated_gib or math.inf)
        return self.unallocated_gib / whole >= threshold_frac

    def would_fit_whole(self) -> bool:
        """Return whether free and unusable memory together hold what is needed."""
        if self.needed_gib is None or self.unallocated_gib is None or self.free_gib is None:
            return False
        return self.free_gib < self.needed_gib <= self.unallocated_gib + self.free_gib


def read_figures(text: str) -> Figures:
    """Return the numbers in ``text``; fields that it does not state are None."""
    flat = " ".join(text.split())
    if (engine := _ENGINE_FREE.search(flat)) is not None:
        free, total, share, asked = (float(part) for part in engine.groups())
        return Figures(needed_gib=asked, free_gib=free, capacity_gib=total, asked_share=share)
    if (cache := _KV.search(flat)) is not None:
        fits = _KV_FITS.search(flat)
        return Figures(
            needed_gib=float(cache[2]),
            free_gib=float(cache[3]),
            sequence_tokens=int(cache[1]),
            fitting_tokens=int(fits[1]) if fits else None,
        )
    if (tokens := _KV_TOKENS.search(flat)) is not None:
        return Figures(sequence_tokens=int(tokens[1]), fitting_tokens=int(tokens[2]))
    if (node := _NODE.search(flat)) is not None:
        killed = _KILLED.search(flat)
        return Figures(
            node_used_gib=float(node[1]),
            node_total_gib=float(node[2]) if node[2] else None,
            killed_gib=float(killed[2]) if killed else None,
            killed_name=killed[1] if killed else "",
        )
    if (plain := _ASYNC.search(flat)) is not None:
        return Figures(
            allocated_gib=_gib(plain[1], plain[2]),
            needed_gib=_gib(plain[3], plain[4]),
            capacity_gib=_gib(plain[5], plain[6]),
            free_gib=_gib(plain[7], plain[8]),
        )
    return _allocator_figures(flat)


def _allocator_figures(flat: str) -> Figures:
    needed = _first(_NEEDED, flat)
    if (old := _OLD.search(flat)) is not None:
        allocated = _gib(old[3], old[4])
        reserved = _first(_OLD_RESERVED, flat)
        return Figures(
            needed_gib=needed,
            capacity_gib=_gib(old[1], old[2]),
            allocated_gib=allocated,
            free_gib=_gib(old[7], old[8]),
            unallocated_gib=None if reserved is None else max(0.0, round(reserved - allocated, 3)),
        )
    total = _NEW_TOTAL.search(flat)
    if total is None and (retold := _RETOLD.search(flat)) is not None:
        return Figures(needed_gib=needed, free_gib=_gib(retold[1], retold[2]), capacity_gib=float(retold[3]))
    total = total or _RETOLD_TOTAL.search(flat)
    others = [_gib(*match.groups()) for match in _NEW_OTHERS.finditer(flat)]
    has_own = _NEW_MINE.search(flat) is not None
    return Figures(
        needed_gib=needed,
        capacity_gib=None if total is None else _gib(total[1], total[2]),
        free_gib=None if total is None else _gib(total[3], total[4]),
        allocated_gib=_first(_NEW_ALLOCATED, flat),
        unallocated_gib=_first(_NEW_RESERVED, flat),
        others_gib=round(sum(others), 3) if others and has_own else None,
    )


def _first(pattern: re.Pattern[str], flat: str) -> float | None:
    found = pattern.search(flat)
    return None if found is None else _gib(found[1], found[2])


def _gib(number: str, unit: str) -> float:
    return float(number) * _UNIT_GIB[unit if unit == "bytes" else unit[0]]
