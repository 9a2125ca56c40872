"""The folder of one session: made once, added to, never reused.

::

    runs/<name>-<time>/
      version.json    format of the folder; written last, so a folder whose making was cut off has none
      job.json        the resolved job                    session.lock      held while a session runs
      journal.jsonl   every event: the source of truth    journal-head.json    journal.torn-<n>
      trials/<n>-<signature>/                             files of one trial; a trial run again gets `...-r2`
      profile.json  forecasts.jsonl  decision.json  tripwires.json  tuned.toml      views, replaced as events come
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path
from typing import Self, final

from pydantic import ValidationError

from steptune import __version__
from steptune.core.errors import StoreError, explain
from steptune.core.event import Event
from steptune.core.job import JobSpec
from steptune.core.records import Record
from steptune.store.files import as_store_error, replace, sync_folder, write_once
from steptune.store.journal import Clock, create_journal
from steptune.store.views import render_views

RUN_FORMAT = "steptune-run-1"
"""Names the layout above; a folder of another format is refused, never guessed at."""


class RunVersion(Record):
    """`version.json`: ``RunVersion(format="steptune-run-1", steptune_version="0.1.0")``."""

    format: str
    steptune_version: str
    """The version that made the folder; for people."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class RunFolder:
    """An existing run folder of this format."""

    path: Path

    @classmethod
    def create(cls, root: Path, job: JobSpec, clock: Clock) -> Self:
        """Make ``root/<job name>-<UTC time>``, or the same with ``-2``, ``-3`` ... where that is taken.

        Raises:
            StoreError: the folder cannot be made, or the disk is full.
        """
        with as_store_error("making", root):
            root.mkdir(parents=True, exist_ok=True)
        path = _new_folder(root / f"{job.name}-{clock().astimezone(UTC):%Y%m%dT%H%M%SZ}", "-")
        with as_store_error("making", path / "trials"):
            (path / "trials").mkdir()
        write_once(path / "job.json", job.model_dump_json(indent=2) + "\n")
        create_journal(path / "journal.jsonl")
        version = RunVersion(format=RUN_FORMAT, steptune_version=__version__)
        write_once(path / "version.json", version.model_dump_json() + "\n")
        sync_folder(root)
        return cls(path=path)

    @classmethod
    def open(cls, path: Path) -> Self:
        """Return the run folder at ``path``.

        Raises:
            StoreError: it is missing, no run folder, or of another format version.
        """
        if not path.is_dir():
            hint = "give the folder that `steptune tune` named, runs/<name>-<time>"
            raise StoreError(
                explain(f"`{path}` is no run folder", got="no such folder", allowed="a run folder", hint=hint)
            )
        try:
            version = RunVersion.model_validate_json((path / "version.json").read_bytes())
        except (FileNotFoundError, ValidationError) as error:
            hint = "start a new run; a folder whose making was cut off holds no results"
            raise StoreError(
                explain(f"`{path}` is no run folder", got="no `version.json`", allowed="a run folder", hint=hint)
            ) from error
        if version.format != RUN_FORMAT:
            what, hint = f"`{path}` is from another version", f"use steptune {version.steptune_version}"
            raise StoreError(explain(what, got=version.format, allowed=RUN_FORMAT, hint=hint))
        return cls(path=path)

    @property
    def journal_path(self) -> Path:
        """The journal's file."""
        return self.path / "journal.jsonl"

    def job(self) -> JobSpec:
        """Return the resolved job.

        Raises:
            StoreError: `job.json` is missing or damaged.
        """
        path = self.path / "job.json"
        with as_store_error("reading", path):
            content = path.read_bytes()
        try:
            return JobSpec.model_validate_json(content)
        except ValidationError as error:
            what, got = f"`{path}` was edited or is from another version", f"{error.error_count()} bad fields"
            hint = "restore it from a copy, or start a new run"
            raise StoreError(explain(what, got=got, allowed="the job as it was written", hint=hint)) from error

    def new_trial_folder(self, number: int, signature: str) -> Path:
        """Make and return ``trials/<number>-<signature>``; ``...-r2`` and so on for a trial that is run again.

        Raises:
            StoreError: the run folder is gone, or the disk is full.
        """
        return _new_folder(self.path / "trials" / f"{number}-{signature}", "-r")

    def write_once(self, name: str, content: str | bytes) -> Path:
        """Write the file ``name`` (a path inside the folder), whole or not at all, and return its path.

        Raises:
            StoreError: it exists already, its folder is gone, or the disk is full.
        """
        write_once(self.path / name, content)
        return self.path / name

    def write_views(self, events: Iterable[Event]) -> None:
        """Bring every view up to date with ``events``, all of the journal's.

        Raises:
            StoreError: the run folder is gone, or the disk is full.
        """
        for name, text in render_views(events).items():
            replace(self.path / name, text)

    def write_tuned(self, text: str) -> Path:
        """Write the user's own configuration with the decided settings, as its framework renders it.

        Raises:
            StoreError: the run folder is gone, or the disk is full.
        """
        replace(self.path / "tuned.toml", text)
        return self.path / "tuned.toml"


def _new_folder(path: Path, mark: str) -> Path:
    """Make ``path``, or the first free of ``path<mark>2``, ``path<mark>3`` ..."""
    candidate, number = path, 1
    while True:
        with as_store_error("making", candidate):
            try:
                candidate.mkdir()
            except FileExistsError:
                number += 1
                candidate = path.with_name(f"{path.name}{mark}{number}")
                continue
        sync_folder(candidate.parent)
        return candidate
