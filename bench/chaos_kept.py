"""What a session has on disk, and whether a later look finds it again: its journal, files of finished trials."""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

from steptune.core.event import TrialEnded
from steptune.store.journal import read_journal


def ended_trials(folder: Path) -> list[TrialEnded]:
    """Return the finished trials of a run folder."""
    return [e.body for e in read_journal(folder / "journal.jsonl") if isinstance(e.body, TrialEnded)]


def hashes(folder: Path) -> dict[str, str]:
    """Return a hash of every file of every finished trial."""
    found: dict[str, str] = {}
    for event in ended_trials(folder):
        name = f"{event.trial.number}-{event.trial.change.signature}"
        for path in sorted(p for p in (folder / "trials").glob(f"{name}*/**/*") if p.is_file()):
            found[str(path.relative_to(folder))] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def repeated(folder: Path) -> int:
    """Return how many finished trials were run twice or are missing from the count."""
    ended = ended_trials(folder)
    numbers, signatures = [e.trial.number for e in ended], [e.trial.change.signature for e in ended]
    return len(signatures) - len(set(signatures)) + (numbers != list(range(1, len(numbers) + 1)))


@dataclass(kw_only=True)
class Kept:
    """What was on disk at the last look, which the next one must find again."""

    lines: list[str] = field(default_factory=list[str])
    """Hashes of the journal's lines."""
    files: dict[str, str] = field(default_factory=dict[str, str])
    """Hashes of the files of finished trials."""
    num_lost: int = 0
    num_compared: int = 0
    """Files of finished trials that a later look found again, byte by byte, summed over looks."""

    def look(self, folder: Path) -> None:
        """Count lines and files of finished trials that are gone or changed."""
        written = (folder / "journal.jsonl").read_bytes().split(b"\n")[:-1]
        lines = [hashlib.sha256(line).hexdigest() for line in written]
        files = hashes(folder)
        self.num_lost += lines[: len(self.lines)] != self.lines
        num_changed = sum(files.get(name) != was for name, was in self.files.items())
        self.num_lost, self.num_compared = self.num_lost + num_changed, self.num_compared + len(self.files)
        self.lines, self.files = lines, files
