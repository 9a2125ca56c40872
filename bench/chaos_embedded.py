"""The embedded half of `bench/chaos.py`: real sessions, killed in pieces of any length, gone on with from a folder.

A kill leaves everything at rest, so it is where a piece of the bench may end; what the next piece has to know (what was
on disk, the planted daemon) is in `state.json`. The surprise: the daemon has to outlive the piece that planted it, for
it is the next resume that must find it.
"""

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from steptune.adapters.embedded.session import RUN_MARK
from steptune.core.event import TrialEnded
from steptune.store.files import replace
from steptune.store.journal import read_journal

HERE = Path(__file__).parent

KILL_AFTER_S = (5.0, 80.0)
"""Seconds until a kill. On a busy machine a profile takes longer than any of them, and one that is never whole is made
anew at every resume: eight kills in a row all fell into it (2026-11-30)."""

NUM_ANYWHERE = 3
"""Kills whose seconds count from the start; those of the later ones count from the profile on, which they leave whole,
so that trials, waterfall and confirmation are reached."""

PROFILED = b'"kind":"profiled"'
"""What the journal's line of the profile holds."""

ORPHAN_S = 5.0
"""Seconds after which nothing of a killed session may run."""

TARGETS = ("session", "trial", "worker")
"""Killed in turn: the session, an engine run (an arm of a trial or of a profile), and a process that helps either."""

MOST_S = 1800.0
"""Seconds after which a session is taken to hang."""

DAEMON = ["sleep", "86400"]


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
    num_lost: int = 0

    def look(self, folder: Path) -> None:
        """Count lines and files of finished trials that are gone or changed."""
        written = (folder / "journal.jsonl").read_bytes().split(b"\n")[:-1]
        lines = [hashlib.sha256(line).hexdigest() for line in written]
        files = hashes(folder)
        self.num_lost += lines[: len(self.lines)] != self.lines
        self.num_lost += sum(files.get(name) != was for name, was in self.files.items())
        self.lines, self.files = lines, files


@dataclass(kw_only=True)
class State:
    """What one piece tells the next."""

    kills: dict[str, int] = field(default_factory=lambda: dict.fromkeys(TARGETS, 0))
    at: dict[str, int] = field(default_factory=dict[str, int])
    """Kills by the kind of the journal's last line then: how far the session had come."""
    ended: list[dict[str, int]] = field(default_factory=list[dict[str, int]])
    """Sessions that came to their end."""
    kept: Kept = field(default_factory=Kept)
    num_orphans: int = 0
    num_daemons_left: int = 0
    daemon: int = 0
    """Process id; 0: none is planted."""

    @property
    def num_kills(self) -> int:
        """Kills so far."""
        return sum(self.kills.values())


def read_state(folder: Path) -> State:
    """Return where the last piece stopped; a fresh start where there was none."""
    path = folder / "state.json"
    if not path.exists():
        return State()
    told = json.loads(path.read_text(encoding="utf-8"))
    return State(**{**told, "kept": Kept(**told["kept"])})


def embedded(num_kills: int, folder: Path, minutes: float, say: Callable[[str], None]) -> dict[str, object] | None:
    """Kill sessions until ``num_kills`` were made and the last has ended; None where the time was up before."""
    folder.mkdir(parents=True, exist_ok=True)
    state, stop_s = read_state(folder), time.monotonic() + 60 * minutes
    while state.num_kills < num_kills or _run_of(folder, state) is not None:
        delay_s = random.Random(f"chaos {state.num_kills}").uniform(*KILL_AFTER_S)
        if time.monotonic() + delay_s + ORPHAN_S > stop_s:
            return None
        process = _start(folder, state)
        is_to_end = state.num_kills >= num_kills
        try:
            if state.num_kills >= NUM_ANYWHERE and not _has_profile(
                folder, state, process, stop_s - delay_s - ORPHAN_S
            ):
                return None
            _wait(process, max(0.0, stop_s - ORPHAN_S - time.monotonic()) if is_to_end else delay_s)
            if process.poll() is not None:
                _end(folder, state, process)
            elif is_to_end:
                return None
            else:
                _kill(folder, state, process)
        finally:  # whatever ends this piece ends the session too
            process.kill()
            process.wait()
        replace(folder / "state.json", json.dumps(asdict(state)) + "\n")
        say(f"embedded: {state.kills}, {len(state.ended)} sessions ended")
    totals = {name: sum(one[name] for one in state.ended) for name in state.ended[0]}
    return {"kills": state.kills, "killed_after": state.at, "sessions": len(state.ended), **totals}


def _root(folder: Path, state: State) -> Path:
    return folder / str(len(state.ended))


def _run_of(folder: Path, state: State) -> Path | None:
    return next(_root(folder, state).glob("chaos-*"), None)


def _start(folder: Path, state: State) -> subprocess.Popen[bytes]:
    """Start a session, or resume it, wait until its journal says so, and look whether the daemon was found."""
    root, run = _root(folder, state), _run_of(folder, state)
    root.mkdir(exist_ok=True)
    what = [str(HERE / "chaos.toml")] if run is None else ["--resume", str(run)]
    lines = _num_lines(run)
    with (root / "log.txt").open("ab") as log:
        command = _steptune("tune", *what, "--runs", str(root))
        process = subprocess.Popen(command, env=environment(folder), stdout=log, stderr=log)
    while process.poll() is None and _num_lines(_run_of(folder, state)) == lines:
        time.sleep(0.05)
    if state.daemon:
        state.num_daemons_left += is_daemon(state.daemon)
        if is_daemon(state.daemon):
            os.kill(state.daemon, signal.SIGKILL)
        state.daemon = 0
    return process


def _kill(folder: Path, state: State, process: subprocess.Popen[bytes]) -> None:
    """Kill the next target, then the session; look what is left, and plant a daemon for the next resume to find."""
    run = _run_of(folder, state)
    assert run is not None, "a started session has a run folder"
    rng, wanted = random.Random(f"victim {state.num_kills}"), TARGETS[state.num_kills % len(TARGETS)]
    victims = [pid for pid, kind in marked(run).items() if kind == wanted and pid != process.pid]
    victim = rng.choice(victims) if victims else process.pid
    os.kill(victim, signal.SIGKILL)
    if victim != process.pid:
        time.sleep(1.0)  # it is the session's to notice; then the session goes too, so that a resume follows
        process.kill()
    process.wait()
    time.sleep(ORPHAN_S)
    state.num_orphans += len(marked(run))
    state.kept.look(run)
    state.kills[wanted if victims else "session"] += 1
    last = str(read_journal(run / "journal.jsonl")[-1].body.kind)
    state.at[last] = state.at.get(last, 0) + 1
    mark = {**os.environ, RUN_MARK: str(run.resolve())}
    state.daemon = subprocess.Popen(DAEMON, env=mark, start_new_session=True).pid


def _end(folder: Path, state: State, process: subprocess.Popen[bytes]) -> None:
    """Book what came of a session that ended by itself."""
    run = _run_of(folder, state)
    assert run is not None, "a session that ends has a run folder"
    if process.returncode:
        sys.stderr.write((_root(folder, state) / "log.txt").read_text(encoding="utf-8")[-2000:])
    state.kept.look(run)
    verified = subprocess.run(_steptune("report", str(run), "--verify"), env=environment(folder), check=False)
    state.ended.append(
        {
            "trials": len(ended_trials(run)),
            "trial_files": len(state.kept.files),
            "exit_code": process.returncode,
            "lost": state.kept.num_lost,
            "repeated": repeated(run),
            "orphans_after_5_s": state.num_orphans,
            "escaped_daemons_not_found": state.num_daemons_left,
            "verify_exit_code": verified.returncode,
        }
    )
    state.kept, state.num_orphans, state.num_daemons_left = Kept(), 0, 0


def _has_profile(folder: Path, state: State, process: subprocess.Popen[bytes], until_s: float) -> bool:
    """Wait for the session's profile, or its end; return whether one of them came in time."""
    while time.monotonic() < until_s:
        run = _run_of(folder, state)
        if process.poll() is not None or (run is not None and PROFILED in (run / "journal.jsonl").read_bytes()):
            return True
        time.sleep(0.2)
    return False


def _wait(process: subprocess.Popen[bytes], seconds: float) -> None:
    try:
        process.wait(min(seconds, MOST_S))
    except subprocess.TimeoutExpired:
        return


def _num_lines(run: Path | None) -> int:
    path = None if run is None else run / "journal.jsonl"
    return 0 if path is None or not path.exists() else path.read_bytes().count(b"\n")


def _steptune(*words: str) -> list[str]:
    return [sys.executable, "-m", "steptune.cli.main", *words]


def environment(folder: Path) -> Mapping[str, str]:
    """Return the environment of a session: this interpreter's paths, a cache and a machine lock of its own."""
    paths, (cache, temporary) = os.pathsep.join(path for path in sys.path if path), (folder / "cache", folder / "tmp")
    temporary.mkdir(exist_ok=True)
    return {**os.environ, "PYTHONPATH": paths, "XDG_CACHE_HOME": str(cache), "TMPDIR": str(temporary)}


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
            found[int(entry.name)] = "trial" if b"steptune.engine.serve\0" in command else "worker"
    return found


def is_daemon(pid: int) -> bool:
    """Return whether a process is a planted daemon that still runs."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:2] == [word.encode() for word in DAEMON]
    except OSError:
        return False
