"""Job files of steptune itself: they say what to tune, not what a run did, so no log answer may be made of them.

Surprise: such a TOML has keys like any framework's; it is told by having a name and no key that a job lacks.
"""

import tomllib
from collections.abc import Sequence
from pathlib import Path

from steptune.cli.streams import say
from steptune.cli.wrong_call import WrongCallError
from steptune.core.errors import explain
from steptune.core.job import JobSpec

MIN_TABLES = 1
"""Tables beside the name that a job has at least: a bare name may be anybody's."""

MAX_BYTES = 100_000
"""Size above which a file is no job; the example has 3,000."""


def without_jobs(paths: Sequence[Path], command: str) -> list[Path]:
    """Return ``paths`` without steptune's own job files, which are named on standard error.

    Raises:
        WrongCallError: nothing else was handed in.
    """
    jobs = [path for path in paths if is_job(path)]
    others = [path for path in paths if path not in jobs]
    if jobs and not others:
        raise WrongCallError(
            explain(
                f"`{jobs[0]}` is a steptune job file: it says what to tune, not what a run did",
                got="no log, configuration or error text of a framework",
                allowed=f"those for `steptune {command}`",
                hint=f"`steptune tune {jobs[0]}`, `steptune forecast {jobs[0]}` or `steptune train {jobs[0]}`",
            )
        )
    for path in jobs:
        say(f"steptune: `{path}` is a steptune job file and is left out; hint: `steptune tune {path}` takes it")
    return others


def is_job(path: Path) -> bool:
    """Return whether ``path`` is a TOML file of which every key is a job's."""
    if path.suffix.lower() != ".toml" or path.stat().st_size > MAX_BYTES:
        return False
    try:
        held = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError):
        return False
    is_known = held.keys() <= JobSpec.model_fields.keys()
    tables = [value for value in held.values() if isinstance(value, dict)]
    is_ours = held.get("framework") in ("embedded", "fake") or len(tables) >= MIN_TABLES
    return is_known and isinstance(held.get("name"), str) and is_ours
