"""Old spellings of keys that a rule has something special to say about; all of them in one finding."""

from steptune.core.finding import Evidence
from steptune.lint.hit import Hit
from steptune.lint.rule import Renamed
from steptune.lint.view import View, spelling


def hits(check: Renamed, view: View) -> tuple[Hit, ...]:
    """Return one hit when any old key is set to anything but null; the title names the first."""
    found = [
        (setting, new)
        for old, new in check.keys.items()
        if (setting := view.settings.get(spelling(old))) is not None and setting.value is not None
    ]
    if not found:
        return ()
    first, new = found[0]
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    facts = tuple(Evidence(text=f"{setting.key}={setting.text}", origin=setting.origin) for setting, _ in found)
    return (Hit(evidence=facts, words={"key": first.key + more, "got": first.text, "new": new}),)
