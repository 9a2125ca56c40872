"""Where in a session `bench/chaos.py` kills, and what: the stage it is in, and the processes that are there to be hit.

The surprise: a stage is read off the journal and the run folder, never off the clock. Kills at random seconds all fell
into the profile, the longest stage of a small job (2026-11-30).
"""

import json
import os
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from steptune.adapters.embedded.session import RUN_MARK

DAEMON = ["sleep", "86400"]
"""A harmless process that left its session, for the next resume to find."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Moment:
    """``Moment(stage="trial 1", kind="engine", after_s=(3.0, 8.0))``."""

    stage: str
    kind: str
    """``session``; ``engine``: a run, an arm of what is measured; ``worker``: the process that probes and replays."""
    after_s: tuple[float, float]
    """Seconds since the stage was entered, the victim appeared or the last kill: drawn from here."""

    def __str__(self) -> str:
        return f"{self.stage}/{self.kind}"


MOMENTS = (
    Moment(stage="profile", kind="session", after_s=(5.0, 15.0)),
    Moment(stage="profile", kind="worker", after_s=(0.0, 4.0)),
    Moment(stage="profile", kind="engine", after_s=(0.5, 4.0)),
    Moment(stage="trial 1", kind="worker", after_s=(0.0, 2.0)),
    Moment(stage="trial 1", kind="engine", after_s=(3.0, 7.0)),
    Moment(stage="trial 1", kind="session", after_s=(3.0, 7.0)),
    Moment(stage="between trials", kind="session", after_s=(0.0, 0.0)),
    Moment(stage="trial 2", kind="session", after_s=(0.5, 5.0)),
    Moment(stage="waterfall", kind="session", after_s=(3.0, 8.0)),
    Moment(stage="confirmation", kind="engine", after_s=(3.0, 7.0)),
    Moment(stage="confirmation", kind="session", after_s=(3.0, 9.0)),
)
"""In the order that a session comes by them; where one is never reached (no second trial), it is told."""


def bodies_of(run: Path | None) -> list[dict[str, Any]]:
    """Return the events that are wholly written, without any check: the file may be in the middle of a line."""
    path = None if run is None else run / "journal.jsonl"
    if path is None or not path.exists():
        return []
    return [json.loads(line)["body"] for line in path.read_bytes().split(b"\n")[:-1] if line]


def stage_of(run: Path | None, bodies: list[dict[str, Any]]) -> str:
    """Return the stage of a session with these events."""
    kinds = [body["kind"] for body in bodies]
    if run is None or "profiled" not in kinds:
        return "profile"
    if "decided" in kinds:
        return "decided"
    if running := _running(bodies):
        return f"trial {running}"
    arms = {path.name.partition("-")[0] for path in (run / "arms").glob("*")}
    if "waterfall" in kinds:
        return "confirmation" if "confirm" in arms else "between trials"
    if "waterfall" in arms:
        return "waterfall"
    return "between trials" if "trial_ended" in kinds else "proposal"


def _running(bodies: list[dict[str, Any]]) -> int:
    """Return the number of the trial that runs; 0: none."""
    running = 0
    for body in bodies:
        if body["kind"] == "trial_started":
            running = body["number"]
        elif body["kind"] in ("trial_ended", "session_resumed"):
            running = 0
    return running


def victims(run: Path, session: int, kind: str) -> list[int]:
    """Return the processes of a kind that are there now."""
    if kind == "session":
        return [session]
    return sorted(pid for pid, what in marked(run).items() if what == kind and pid != session)


def marked(run: Path) -> dict[int, str]:
    """Return processes that carry the mark of ``run`` by what they are, planted daemons left out."""
    found: dict[int, str] = {}
    wanted = f"{RUN_MARK}={run.resolve()}".encode()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            is_ours = wanted in (entry / "environ").read_bytes().split(b"\0")
            command = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if is_ours and not is_daemon(int(entry.name)):
            found[int(entry.name)] = "engine" if b"steptune.engine.serve\0" in command else "worker"
    return found


def plant_daemon(run: Path) -> int:
    """Start a daemon with the mark of ``run`` in a session of its own and return its process id."""
    environment = {**os.environ, RUN_MARK: str(run.resolve())}
    null = subprocess.DEVNULL
    return subprocess.Popen(DAEMON, env=environment, start_new_session=True, stdin=null, stdout=null, stderr=null).pid


def is_daemon(pid: int) -> bool:
    """Return whether a process is a planted daemon that still runs."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:2] == [word.encode() for word in DAEMON]
    except OSError:
        return False


def stop_daemon(pid: int) -> None:
    """End a planted daemon that nobody found."""
    if is_daemon(pid):
        os.kill(pid, signal.SIGKILL)
