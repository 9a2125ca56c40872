"""The framework takes another share of the card than was asked: Unsloth's standby turns 0.5 into about 0.9 (U01)."""

import re

from steptune.core.finding import Evidence, Finding, FindingKind, Remedy, Severity
from steptune.core.paste import Excerpt, Paste
from steptune.memory.settings import View

ACTUAL = re.compile(r"actual GPU [Uu]tili[sz]ation\s*=\s*(\d+(?:\.\d*)?)\s*%?")
"""Unsloth prints percent."""

PERCENT_ABOVE = 1.5
"""A share above this is a percentage: ``88.`` is 0.88."""

TOLERANCE = 0.05
"""Difference below which asked and taken are the same: Unsloth itself rounds to percent."""

STANDBY = "env.UNSLOTH_VLLM_STANDBY"
"""Switches Unsloth's standby on, which sizes the engine by itself."""


def override_finding(paste: Paste, view: View) -> Finding | None:
    """Return the finding where the share that a log states differs from the one that was set."""
    for excerpt in paste.excerpts:
        found = ACTUAL.search(excerpt.text)
        actual = None if found is None else _share(found[1])
        asked = _asked(view)
        if actual is not None and asked is not None and abs(actual - asked) > TOLERANCE:
            return _finding(excerpt, asked, actual, has_standby=view.is_set(STANDBY))
    return None


def _share(text: str) -> float | None:
    try:
        number = float(text.rstrip("."))
    except ValueError:
        return None
    share = number / 100 if number > PERCENT_ABOVE else number
    return share if 0 < share <= 1 else None


def _asked(view: View) -> float | None:
    keys = (*view.rule.share_keys, "gpu_memory_utilization", "vllm_gpu_memory_utilization")
    return next((value for key in keys if view.is_set(key) and (value := view.number(key)) is not None), None)


def _finding(excerpt: Excerpt, asked: float, actual: float, *, has_standby: bool) -> Finding:
    why = " (standby sizes the engine by itself)" if has_standby else ""
    return Finding(
        code="memory/override",
        kind=FindingKind.MEMORY,
        severity=Severity.WARNING,
        title=f"The engine takes {actual:g} of the card though {asked:g} was asked{why}",
        evidence=(Evidence(text=" ".join(excerpt.text.split())[:200], origin=excerpt.origin),),
        remedies=(
            Remedy(
                text="Standby shares the card in time, so the trainer gets it back; if the share itself must hold, "
                "switch standby off",
                lines=("export UNSLOTH_VLLM_STANDBY=0",) if has_standby else (),
                source="https://github.com/unslothai/unsloth/issues/3328",
            ),
        ),
    )
