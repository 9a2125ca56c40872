"""AReaL's allocation strings: how many GPUs they ask for.

``sglang:d4p1t1+fsdp:d4`` is one string for two parts; older versions write ``sglang.d4p1t1+d4p1t1``. Parts joined
by ``|`` share the same GPUs, parts joined by ``+`` do not. Grammar: areal-project/AReaL@cbff54d
areal/api/alloc_mode.py.
"""

import re
from math import prod

from steptune.core.finding import Evidence
from steptune.core.paste import Setting
from steptune.lint.formula import number
from steptune.lint.hit import Hit, plain
from steptune.lint.rule import Allocation
from steptune.lint.view import View

DIMENSIONS = re.compile(r"([dtpce])(\d+)")
"""One parallel size: data, tensor, pipeline, context, expert. Expert parallel reuses the others' GPUs."""


def num_gpus(text: str) -> int | None:
    """Return the GPUs that an allocation string takes; None when it holds no sizes.

    >>> num_gpus("sglang:d4p1t1+fsdp:d4"), num_gpus("sglang:d2t2|fsdp:d4")
    (8, 4)
    """
    parts = [_shared(part) for part in text.split("+")]
    return None if not parts or any(part is None for part in parts) else sum(part or 0 for part in parts)


def _shared(part: str) -> int | None:
    sizes = [size for piece in part.split("|") if (size := _size(piece)) is not None]
    return max(sizes, default=None)


def _size(piece: str) -> int | None:
    spec = re.split(r"[:.]", piece.strip())[-1]
    found = DIMENSIONS.findall(spec)
    return prod(int(size) for letter, size in found if letter != "e") if found else None


def hits(check: Allocation, view: View) -> tuple[Hit, ...]:
    """Return one hit per written string, or for the strings of several keys together, that needs too many GPUs.

    A paste may hold several attempts at one key: each is judged, not only the last.
    """
    have = number(check.num_gpus, view)
    if have is None:
        return ()
    tries = [[s] for s in view.written_as(check.names[0])]
    if len(check.names) > 1:
        tries = [[s for name in check.names if (s := view.setting(name)) is not None]]
    return tuple(hit for settings in tries if (hit := _hit(settings, have, check, view)) is not None)


def _hit(settings: list[Setting], have: float, check: Allocation, view: View) -> Hit | None:
    texts = [s.value for s in settings if isinstance(s.value, str) and s.is_resolved]
    needs = [num_gpus(text) for text in texts]
    total = sum(need or 0 for need in needs)
    if not needs or any(need is None for need in needs) or total <= have:
        return None
    facts = (*(Evidence(text=f"{s.key}={s.text}", origin=s.origin) for s in settings), *view.evidence(check.num_gpus))
    return Hit(evidence=facts, words={"left": str(total), "right": plain(have), "got": " and ".join(texts)})
