"""Keys of another version of the framework, from the published table of changes: one finding for all of them.

Which version a paste is for is often unknown, so this is worth knowing and no fault: the row says what happened.
"""

from steptune.core.finding import Evidence
from steptune.core.paste import Setting
from steptune.lint.hit import Hit
from steptune.lint.rule import Changed
from steptune.lint.view import View, spelling
from steptune.published.keys import Rename, renames

MAX_NAMED = 3
"""Keys that the title names; the evidence shows them all."""


def hits(check: Changed, view: View) -> tuple[Hit, ...]:
    """Return one hit when any set key is in the table with one of the kinds asked for."""
    rows = (row for row in renames(view.framework) if row.kind in check.kinds)
    found = [(setting, row) for row in rows if (setting := view.settings.get(spelling(row.old))) is not None]
    if not found:
        return ()
    named = [f"{row.old} -> {row.new}" if row.new else row.old for _, row in found[:MAX_NAMED]]
    more = [f"and {len(found) - MAX_NAMED} more"] if len(found) > MAX_NAMED else []
    facts = tuple(_fact(setting, row) for setting, row in found)
    return (Hit(evidence=facts, words={"got": str(len(found)), "new": ", ".join((*named, *more))}),)


def _fact(setting: Setting, row: Rename) -> Evidence:
    now = f"now {row.new}" if row.new else row.kind
    since = f" ({row.since})" if row.since else ""
    return Evidence(text=f"{setting.key}={setting.text}: {now}{since}; {row.what}", origin=setting.origin)
