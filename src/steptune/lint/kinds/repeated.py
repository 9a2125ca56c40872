"""One key written twice: the last one counts, and nobody is told.

Only where a repetition is no form of speech: dotted overrides, and flags of frameworks that have nothing else. A
script may start several programs with an option of the same name, and what an undecided branch sets is unresolved.
"""

from steptune.core.finding import Evidence
from steptune.core.paste import Setting
from steptune.lint.hit import Hit
from steptune.lint.rule import Repeated
from steptune.lint.view import View, spelling

FLAG_FRAMEWORKS = ("slime", "openrlhf")
"""Frameworks whose whole configuration is one command's flags."""


def hits(check: Repeated, view: View) -> tuple[Hit, ...]:
    """Return one hit per key that one file sets twice in one layer to different values."""
    del check
    places: dict[tuple[str, str, str], list[Setting]] = {}
    for setting in (s for s in view.written if s.is_resolved):
        places.setdefault((spelling(setting.key), setting.layer, setting.origin.path), []).append(setting)
    return tuple(_hit(same) for same in places.values() if _is_fault(same, view.framework))


def _is_fault(same: list[Setting], framework: str) -> bool:
    is_key = "." in same[0].key or framework in FLAG_FRAMEWORKS
    return is_key and same[0].layer == "override" and any(s.value != same[0].value for s in same)


def _hit(same: list[Setting]) -> Hit:
    facts = tuple(Evidence(text=f"{s.key}={s.text}", origin=s.origin) for s in same)
    last = same[-1]
    return Hit(evidence=facts, words={"key": last.key, "got": last.text, "first": same[0].text})
