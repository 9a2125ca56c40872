"""What a reader already said about the form of the configuration, turned into a finding."""

from steptune.core.finding import Evidence
from steptune.lint.hit import Hit
from steptune.lint.rule import Noted
from steptune.lint.view import View


def hits(check: Noted, view: View) -> tuple[Hit, ...]:
    """Return one hit per note that holds the words of ``says``."""
    return tuple(
        Hit(evidence=(Evidence(text=note.text, origin=note.origin),), words={"got": note.text.split("; hint:")[0]})
        for note in view.notes
        if check.says in note.text
    )
