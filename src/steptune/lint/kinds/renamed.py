"""Old spellings of keys."""

from steptune.core.finding import Evidence
from steptune.lint.hit import Hit
from steptune.lint.rule import Renamed
from steptune.lint.view import View, spelling


def hits(check: Renamed, view: View) -> tuple[Hit, ...]:
    """Return one hit per old key that is set to anything but null."""
    found = ((view.settings.get(spelling(old)), new) for old, new in check.keys.items())
    return tuple(
        Hit(
            evidence=(Evidence(text=f"{setting.key}={setting.text}", origin=setting.origin),),
            words={"key": setting.key, "got": setting.text, "new": new},
        )
        for setting, new in found
        if setting is not None and setting.value is not None
    )
