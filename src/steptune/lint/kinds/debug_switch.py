"""Environment variables for hunting bugs that were left on."""

from steptune.core.finding import Evidence
from steptune.lint.hit import Hit
from steptune.lint.rule import DebugSwitch
from steptune.lint.view import View


def hits(check: DebugSwitch, view: View) -> tuple[Hit, ...]:
    """Return one hit per variable that is exported with a value that costs time."""
    found = ((name, view.settings.get(f"env.{name}"), bad) for name, bad in check.values.items())
    return tuple(
        Hit(
            evidence=(Evidence(text=f"{name}={setting.text}", origin=setting.origin),),
            words={"key": name, "got": setting.text},
        )
        for name, setting, bad in found
        if setting is not None and _plain(setting.text) in bad
    )


def _plain(text: str) -> str:
    return text.strip().strip("\"'").upper()
