"""Which rows of the phase table are worth a reader's time, and what they are called.

Surprise: in a synchronous job the same seconds stand in every role's book, once as work and otherwise as waiting for
it. There each phase is shown once, where it is worked on, the longest first; the waits are left to the picture.
"""

from itertools import groupby

from steptune.core.finding import Diagnosis, PhaseRow
from steptune.core.paste import Paste
from steptune.core.phase import Phase, Role, SpanKind, is_child, parent_phase
from steptune.core.profile import Origin

SMALL_FRAC = 0.001
"""Part of the step below which a row's own numbers only take room: a thousandth cannot be the reason."""


def is_small(row: PhaseRow) -> bool:
    """Return whether the row is too small to matter."""
    return row.share is not None and abs(row.share) < SMALL_FRAC


def is_merged(diagnosis: Diagnosis) -> bool:
    """Return whether one table without repetitions says it all: nothing overlaps in a synchronous job."""
    profile = diagnosis.paste.profile
    return profile is not None and profile.schedule == "sync"


def shown_rows(diagnosis: Diagnosis) -> tuple[PhaseRow, ...]:
    """Return the rows to show: all of them, or each phase once where `is_merged`."""
    if not is_merged(diagnosis):
        return diagnosis.phases
    worked_on = {row.phase for row in diagnosis.phases if not row.is_wait}
    once = [row for row in diagnosis.phases if not (row.is_wait and row.phase in worked_on)]
    first_rest = next((r for r in once if r.phase == Phase.UNATTRIBUTED and r.role is Role.TRAINER), None)
    kept = [row for row in once if row.phase != Phase.UNATTRIBUTED]
    return (*_longest_first(kept), *([first_rest] if first_rest else []))


def row_name(row: PhaseRow) -> str:
    """Return what the row is: a wait says so."""
    return f"waits for {row.phase}" if row.is_wait else row.phase


def row_origin(paste: Paste, row: PhaseRow) -> Origin | None:
    """Return where the seconds of ``row`` were read."""
    kind = SpanKind.EXPOSED_WAIT if row.is_wait else SpanKind.BUSY
    role = paste.profile.role(row.role) if paste.profile else None
    same = [p for p in (role.phases if role else paste.phases) if p.phase == row.phase and p.kind is kind]
    named = [p.origin for p in same if p.origin is not None]
    return next((o for o in named if o.key == row.key), named[0] if named else None)


def _longest_first(rows: list[PhaseRow]) -> list[PhaseRow]:
    """Sort by time, children right below their parent."""
    longest = {phase: max(r.seconds.value for r in held) for phase, held in groupby(sorted(rows, key=_parent), _parent)}
    return sorted(rows, key=lambda row: (-longest[_parent(row)], _parent(row), is_child(row.phase), -row.seconds.value))


def _parent(row: PhaseRow) -> str:
    return str(parent_phase(row.phase))
