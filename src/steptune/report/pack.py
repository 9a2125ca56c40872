"""Makes a pack of a run folder: its journal without secrets, with what others need to run it again.

Surprise: hashes of source code look like keys to the redaction, so they are put back; they hide nothing.
"""

from steptune import __version__
from steptune.core.event import Confirmed, Event, SessionResumed, SessionStarted
from steptune.core.records import Record
from steptune.report.redact import redact
from steptune.report.strings import all_strings
from steptune.store.journal import read_journal
from steptune.store.pack import PACK_FORMAT, Pack, PackHeader, chain_of, digest_of
from steptune.store.run_folder import RunFolder


class _Events(Record):
    """All events at once, so that a secret named in one is found in every other."""

    events: tuple[Event, ...]


def make_pack(folder: RunFolder, confirm_seeds: tuple[int, ...]) -> Pack:
    """Return the pack of ``folder``; ``confirm_seeds`` as `tune.replicate.confirm_seeds` gives them.

    Raises:
        StoreError: the journal is damaged or empty.
    """
    entries = read_journal(folder.journal_path)
    events = tuple(entry.body for entry in entries)
    hidden = without_secrets(events)
    lines = chain_of(entries, hidden)
    started = next((event for event in events if isinstance(event, SessionStarted)), None)
    header = PackHeader(
        format=PACK_FORMAT,
        steptune_version=__version__,
        name=folder.path.resolve().name,
        job_seed=started.job.algorithm.seed if started else 0,
        confirm_seeds=confirm_seeds,
        num_lines=len(lines),
        original_head=entries[-1].hash if entries else "",
        num_redacted=num_changed(events, hidden),
        sha256=digest_of(lines),
    )
    return Pack(header=header, entries=tuple(lines))


def without_secrets(events: tuple[Event, ...]) -> tuple[Event, ...]:
    """Return ``events`` with every secret and home folder replaced; hashes of code stay."""
    hidden = redact(_Events(events=events)).events
    return tuple(_with_code_hash(now, was) for now, was in zip(hidden, events, strict=True))


def num_changed(before: tuple[Event, ...], after: tuple[Event, ...]) -> int:
    """Return how many strings of ``before`` differ in ``after``."""
    pairs = zip(all_strings(before), all_strings(after), strict=True)
    return sum(was != now for was, now in pairs)


def num_launches(events: tuple[Event, ...]) -> int:
    """Return the launches of the last confirmation; 0 without one."""
    confirmed = [event for event in events if isinstance(event, Confirmed)]
    return (confirmed[-1].speedup.n or 0) if confirmed else 0


def _with_code_hash(now: Event, was: Event) -> Event:
    if isinstance(now, SessionStarted | SessionResumed) and isinstance(was, SessionStarted | SessionResumed):
        return now.model_copy(update={"code_hash": was.code_hash})
    return now
