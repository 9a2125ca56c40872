"""Numbers that make no sense: a memory share of 1.8, zero samples, half a group."""

from steptune.lint.hit import Hit
from steptune.lint.rule import InRange
from steptune.lint.view import View


def hits(check: InRange, view: View) -> tuple[Hit, ...]:
    """Return one hit per name that is set to a number outside the range."""
    return tuple(hit for name in check.names if (hit := _hit(check, name, view)) is not None)


def _hit(check: InRange, name: str, view: View) -> Hit | None:
    value = view.value(name)
    setting = view.setting(name)
    if setting is None or value is None or isinstance(value, str | bool) or _is_inside(check, value):
        return None
    return Hit(evidence=view.evidence(name), words={"key": setting.key, "got": setting.text})


def _is_inside(check: InRange, value: float) -> bool:
    is_above = value >= check.low if check.is_low_allowed else value > check.low
    return is_above and value <= check.high and (not check.is_whole or isinstance(value, int) or value.is_integer())
