"""The devices a text names: "8x H100", "A100 80GB", "total capacity of 79.15 GiB"."""

import re
from collections.abc import Iterable

from steptune.core.paste import DeviceClaim
from steptune.core.profile import Origin
from steptune.hardware.devices import find_device
from steptune.readers.lines import NumberedLine

_CHIP = (
    r"(?:GB300|GB200|GH200|B300|B200|H200|H100|H800|H20|A100|A800|A10G?|A40|A30|A6000|L40S?|L20|L4|V100|T4|"
    r"MI3\d\dX?|MI250X?|RTX ?(?:PRO ?)?\d{4}(?: ?Ti)?|910B\d?|910C|C550|TPU ?v\d\w*)"
)
_NAMED = re.compile(
    rf"(?<![\w./-])(?:(?P<count>\d{{1,4}}) ?[x×*] ?)?(?:NVIDIA |Nvidia |AMD |Ascend ?|Tesla |Instinct )*"
    rf"(?P<name>{_CHIP})(?:[- ](?:SXM\d?|PCIe|NVL))?(?:[- ]\(?(?P<gb>\d{{2,3}}) ?(?:GB?|GiB)\b)?"
    rf"(?: ?GPUs?)?(?: ?[x×] ?(?P<after>\d{{1,4}})\b)?(?![\w/])"
)
_CAPACITY = re.compile(
    r"total capacity of (?P<gib>\d+(?:\.\d+)?) ?GiB|(?P<cap>\d{1,4}(?:\.\d{1,4})?) GiB total capacity"
)
_EACH = re.compile(r"(?P<gb>\d{2,3}) ?(?:GB|GiB|G) each|(?P<peak>(?<=/)\d+\.\d) GiB \(\d")
_COUNT = re.compile(r"(?<![\w./-])(?P<count>[1-9]\d{0,3}) ?[x×]? ?(?:GPUs?|accelerators|NPUs?|devices)\b")

_LITERALS = (
    *("GB200", "GB300", "GH200", "B200", "B300", "H200", "H100", "H800", "H20", "A100", "A800", "A10", "A40", "A30"),
    *("A6000", "L40", "L20", "L4", "V100", "T4", "MI2", "MI3", "RTX", "910", "C550", "TPU"),
    *("capacity", " each", "GiB ("),
)
"""One of these is in every text that names a device or its memory."""

_SMALLEST_GIB = 4.0
"""Total capacities below this are of a slice or a misread number."""


def read_devices(lines: Iterable[NumberedLine], path: str) -> DeviceClaim | None:
    """Return the first name, count and memory that clean lines state; None when they state none of them."""
    name: str | None = None
    count: int | None = None
    memory_gib: float | None = None
    origin: Origin | None = None
    for number, text in lines:
        if not (text.lstrip().startswith("#") or any(map(text.__contains__, _LITERALS))):
            continue
        found = _NAMED.search(text)
        before = (name, count, memory_gib)
        if found is not None:
            name = name or found["name"]
            stated = found["count"] or found["after"]
            count = count or (int(stated) if stated else None)
            memory_gib = memory_gib or (float(found["gb"]) if found["gb"] else None)
        count = count or _count(text)
        memory_gib = memory_gib or _memory_gib(text)
        if (name, count, memory_gib) != before and origin is None:
            origin = Origin(path=path, line=number, key="devices")
    return None if origin is None else DeviceClaim(name=name, count=count, memory_gib=memory_gib, origin=origin)


def card_memory_gib(claim: DeviceClaim | None) -> float | None:
    """Return what one card can hold at most: as stated, or by its name."""
    if claim is None or claim.memory_gib is not None:
        return None if claim is None else claim.memory_gib
    device = find_device(claim.name) if claim.name else None
    return None if device is None else device.memory_gib


def _count(text: str) -> int | None:
    """A bare number of GPUs counts only in a comment: a program's output counts the GPUs of a worker or an engine."""
    found = _COUNT.search(text) if text.lstrip().startswith("#") else None
    return int(found["count"]) if found else None


def _memory_gib(text: str) -> float | None:
    found = _CAPACITY.search(text) or _EACH.search(text)
    if found is None:
        return None
    value = float(next(group for group in found.groups() if group))
    return value if value >= _SMALLEST_GIB else None
