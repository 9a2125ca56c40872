"""Keys that no version knows while a known one is one slip away.

Only near misses count: a key that resembles nothing may be the user's own, and permissive frameworks allow that.
A slip is one word of several with at most two letters wrong, or a separator too many or too few.
"""

from functools import cache

from steptune.core.finding import Evidence
from steptune.core.paste import Setting
from steptune.lint.hit import Hit
from steptune.lint.rule import Misspelt
from steptune.lint.view import View, spelling
from steptune.published.keys import known_keys, renames

MAX_SLIPS = 2
"""Letters that may be wrong, missing or too many in one word."""

MIN_LETTERS = 5
"""Shorter words differ by meaning, not by slips: ``ep`` and ``pp``, ``type`` and ``dtype``."""

FLAT_FRAMEWORKS = ("trl", "slime", "openrlhf")
"""Frameworks whose keys need no dot; elsewhere a key without one belongs to the script around the job."""

NEGATION = "no_"
"""Prefix that argument parsers give to the opposite of a switch."""


def hits(check: Misspelt, view: View) -> tuple[Hit, ...]:
    """Return one hit per unknown key with a known near miss under the same parent."""
    asked = (s for s in view.written if _is_asked(s, check, view.framework))
    found = ((setting, nearest_key(spelling(setting.key), view.framework)) for setting in asked)
    return tuple(_hit(setting, near) for setting, near in found if near is not None)


def _is_asked(setting: Setting, check: Misspelt, framework: str) -> bool:
    """Whether the key is meant for the framework: not the environment's, the script's or another library's."""
    if setting.layer in ("env", "code") or (check.prefixes and setting.prefix not in check.prefixes):
        return False
    is_script_flag = framework == "trl" and "-" in setting.key
    return ("." in setting.key or framework in FLAT_FRAMEWORKS) and not is_script_flag


@cache
def nearest_key(key: str, framework: str) -> str | None:
    """Return the known key that ``key`` was probably meant to be; None when it is known or resembles none."""
    parent, _, last = key.rpartition(".")
    siblings = _children(framework).get(parent, frozenset())
    if not siblings or {last, last.removeprefix(NEGATION)} & siblings or key in _former(framework):
        return None
    near = sorted(other for other in siblings if is_slip(last, other))
    return f"{parent}.{near[0]}".lstrip(".") if near else None


def is_slip(written: str, meant: str) -> bool:
    """Return whether ``written`` is ``meant`` with one slip of the fingers.

    >>> is_slip("gpu_memory_utilisation", "gpu_memory_utilization"), is_slip("sglang_ep_size", "sglang_pp_size")
    (True, False)
    """
    if written.replace("_", "") == meant.replace("_", ""):
        return True
    words, wanted = written.split("_"), meant.split("_")
    wrong = [(a, b) for a, b in zip(words, wanted, strict=False) if a != b]
    if len(words) != len(wanted) or len(wrong) != 1:
        return False
    a, b = wrong[0]
    return min(len(a), len(b)) >= MIN_LETTERS and distance(a, b) <= MAX_SLIPS


def distance(a: str, b: str) -> int:
    """Return the letters to change, add or drop between two words (Levenshtein 1966)."""
    row = list(range(len(b) + 1))
    for i, letter in enumerate(a, start=1):
        above, row = row, [i]
        for j, other in enumerate(b, start=1):
            row.append(min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (letter != other)))
    return row[-1]


@cache
def _children(framework: str) -> dict[str, frozenset[str]]:
    """The last parts that are known under every parent, sections included."""
    found: dict[str, set[str]] = {}
    for key in known_keys(framework):
        parts = spelling(key).split(".")
        for depth in range(len(parts)):
            found.setdefault(".".join(parts[:depth]), set()).add(parts[depth])
    return {parent: frozenset(lasts) for parent, lasts in found.items()}


@cache
def _former(framework: str) -> frozenset[str]:
    """Keys of other versions: old, not misspelt."""
    return frozenset(spelling(change.old) for change in renames(framework))


def _hit(setting: Setting, near: str) -> Hit:
    fact = Evidence(text=f"{setting.prefix}{setting.key}={setting.text}", origin=setting.origin)
    return Hit(evidence=(fact,), words={"key": setting.key, "got": setting.text, "new": near})
