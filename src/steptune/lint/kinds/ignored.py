"""Keys that are set and read by nobody; the key that counts is named."""

from steptune.lint.hit import Hit
from steptune.lint.rule import Ignored
from steptune.lint.view import View


def hits(check: Ignored, view: View) -> tuple[Hit, ...]:
    """Return one hit per name that the user set."""
    return tuple(_hit(check, name, view) for name in check.names if _is_written(name, view))


def _is_written(name: str, view: View) -> bool:
    """Whether the value is known to be set: an expression in code may well be None when it counts."""
    setting = view.setting(name)
    return view.is_set(name) and (setting is None or setting.is_resolved)


def _hit(check: Ignored, name: str, view: View) -> Hit:
    setting = view.setting(name)
    words = {"key": setting.key, "got": setting.text} if setting else {}
    active = (check.active,) if check.active else ()
    return Hit(evidence=view.evidence(name, *active), words={**words, "active": _key(check.active, view)})


def _key(name: str, view: View) -> str:
    setting = view.setting(name)
    if setting is not None:
        return setting.key
    return view.names[name].keys[0] if name else ""
