"""Files of steptune itself: jobs say what to tune, run folders hold sessions, and no log answer may be made of either.

Surprise: a job's TOML has keys like any framework's; it is told by having a name and no key that a job lacks.
"""

import tomllib
from collections.abc import Sequence
from pathlib import Path

from steptune.cli.streams import say
from steptune.cli.wrong_call import WrongCallError
from steptune.core.errors import explain
from steptune.core.job import JobSpec

MAX_BYTES = 100_000
"""Size above which a file is no job; the example has 3,000."""

RUN_MARK, RUN_FORMAT = "version.json", "steptune-run-"
"""The file that every run folder has, and how the format in it begins."""

RUN_DEPTH = 4
"""Folders above a file that may be the run folder it lies in."""


def without_own(paths: Sequence[Path], command: str) -> list[Path]:
    """Return ``paths`` without steptune's own job files and run folders, which are named on standard error.

    Raises:
        WrongCallError: nothing else was handed in.
    """
    own = {path: told for path in paths if (told := _told(path)) is not None}
    others = [path for path in paths if path not in own]
    told = list(dict.fromkeys(own.values()))
    if told and not others:
        what, hint = told[0]
        allowed = f"those for `steptune {command}`"
        raise WrongCallError(
            explain(what, got="no log, configuration or error text of a framework", allowed=allowed, hint=hint)
        )
    for what, hint in told:
        say(f"steptune: {what}, and is left out; hint: {hint}")
    return others


def is_job(path: Path) -> bool:
    """Return whether ``path`` is a TOML file of which every key is a job's."""
    if path.suffix.lower() != ".toml" or path.stat().st_size > MAX_BYTES:
        return False
    try:
        held = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError):
        return False
    has_table = any(isinstance(value, dict) for value in held.values())
    is_ours = has_table or held.get("framework") in ("embedded", "fake")
    return held.keys() <= JobSpec.model_fields.keys() and isinstance(held.get("name"), str) and is_ours


def run_folder_of(path: Path) -> Path | None:
    """Return the run folder that ``path`` lies in."""
    return next((folder for folder in path.absolute().parents[:RUN_DEPTH] if _is_run(folder)), None)


def _told(path: Path) -> tuple[str, str] | None:
    """What a file of ours is, and the commands that take it."""
    if is_job(path):
        what = f"`{path}` is a steptune job file: it says what to tune, not what a run did"
        return what, f"`steptune tune {path}`, `steptune forecast {path}` or `steptune train {path}`"
    folder = run_folder_of(path)
    return None if folder is None else (f"`{folder}` is a steptune run folder", f"`steptune report {folder}`")


def _is_run(folder: Path) -> bool:
    try:
        return RUN_FORMAT in (folder / RUN_MARK).read_text(encoding="utf-8")
    except (OSError, ValueError):
        return False
