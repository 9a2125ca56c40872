"""The embedded half of `bench/chaos.py`: a calm session and one that is killed at every stage, in pieces of any length.

A kill of the session leaves everything at rest, so it is where a piece of the bench may end; what the next piece has to
know (what was on disk, the planted daemon) is in `state.json`. Killed runs and helpers leave the session up: it has to
go on by itself. The surprise: the daemon has to outlive the piece that planted it, for it is the next resume that must
find it.
"""

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
from typing import Any

from chaos_kept import Kept, ended_trials, repeated
from chaos_moments import MOMENTS, Moment, bodies_of, is_daemon, marked, plant_daemon, stage_of, stop_daemon, victims
from steptune.adapters.embedded.framework import EmbeddedFramework
from steptune.core.trial import TrialState
from steptune.store.files import replace
from steptune.store.journal import read_journal
from steptune.store.replay import fold

HERE = Path(__file__).parent

LOOK_S = 0.005
"""Seconds between two looks at the journal: between two trials there are some tens of milliseconds."""

PROCESSES_S = 0.25
"""Seconds between two looks at all processes and folders, which cost the machine that the session runs on."""

ORPHAN_S = 5.0
"""Seconds after which nothing of a killed session may run."""

LIFE_S = 30.0
"""Seconds below which starting a session gets nowhere."""

KILLED, CALM = "killed", "calm"
"""The second is left alone; its decision is the one that the first has to come to."""


@dataclass(kw_only=True)
class State:
    """What one piece tells the next."""

    left: list[int] = field(default_factory=lambda: list(range(len(MOMENTS))))
    """Places in `MOMENTS` that are still to come."""
    kills: list[str] = field(default_factory=list[str])
    """Stage and kind of every kill, the stage by the journal afterwards."""
    cuts: list[str] = field(default_factory=list[str])
    """Stages in which a session was killed because a piece of the bench was over."""
    errors: list[int] = field(default_factory=list[int])
    """Exit codes of sessions that ended by themselves before their decision."""
    kept: Kept = field(default_factory=Kept)
    num_orphans: int = 0
    num_daemons: int = 0
    num_daemons_left: int = 0
    daemon: int = 0
    """Process id; 0: none is planted."""
    ended: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    """What came of the sessions that have their decision."""


def read_state(folder: Path) -> State:
    """Return where the last piece stopped; a fresh start where there was none."""
    path = folder / "state.json"
    if not path.exists():
        return State()
    told = json.loads(path.read_text(encoding="utf-8"))
    return State(**{**told, "kept": Kept(**told["kept"])})


def embedded(num_kills: int, folder: Path, minutes: float, say: Callable[[str], None]) -> dict[str, object] | None:
    """Run both sessions to their decisions, one through ``num_kills`` kills; None where the time was up before."""
    folder.mkdir(parents=True, exist_ok=True)
    state, stop_s = read_state(folder), time.monotonic() + 60 * minutes
    while (name := next((each for each in (KILLED, CALM) if each not in state.ended), None)) is not None:
        if time.monotonic() + LIFE_S > stop_s:
            return None
        life = Life(folder=folder, name=name, state=state, moments=_moments(state, name, num_kills), say=say)
        life.live(stop_s - ORPHAN_S)
        replace(folder / "state.json", json.dumps(asdict(state), indent=1) + "\n")
    return result(folder, state)


def _moments(state: State, name: str, num_kills: int) -> list[int]:
    return state.left if name == KILLED and len(state.kills) < num_kills else []


def is_same(folder: Path, one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether two decisions are the same outcome and the same work, at the lengths of the calm session.

    Settings may differ where they do nothing: two sizes of micro-batch that a whole step fits in, for example.
    """
    run = next((folder / CALM).glob("chaos-*"))
    state = fold([entry.body for entry in read_journal(run / "journal.jsonl")])
    assert state.started is not None, "a session that has a decision was started"
    assert state.baseline is not None, "and profiled"
    assert state.baseline.lengths is not None, "and its lengths were sampled"
    framework, job, lengths = EmbeddedFramework(cache_dir=folder / "cache"), state.started.job, state.baseline.lengths
    works = [framework.planned_work(job, each["settings"], lengths) for each in (one, other)]
    return one["outcome"] == other["outcome"] and works[0] == works[1]


def result(folder: Path, state: State) -> dict[str, object]:
    """Return what was shown."""
    killed, calm = state.ended[KILLED], state.ended[CALM]
    counted = {kill: state.kills.count(kill) for kill in dict.fromkeys(state.kills)}
    return {
        "kills": len(state.kills),
        "kills_at": counted,
        "kills_between_pieces": state.cuts,
        "moments_not_reached": [str(MOMENTS[index]) for index in state.left],
        "ended_with_an_error": state.errors,
        **killed,
        "files_found_again": state.kept.num_compared,
        "lost": state.kept.num_lost,
        "orphans_after_5_s": state.num_orphans,
        "escaped_daemons": state.num_daemons,
        "escaped_daemons_not_found": state.num_daemons_left,
        "other_decisions": int(not is_same(folder, calm["decision"], killed["decision"])),
        "calm": calm,
    }


@dataclass(kw_only=True)
class Life:
    """One process of a session, from its start to a kill of it or its end."""

    folder: Path
    name: str
    state: State
    moments: list[int]
    """Places in `MOMENTS` that may come now; emptied as they do."""
    say: Callable[[str], None]
    due_s: dict[int, float] = field(default_factory=dict[int, float])
    """When a moment comes whose stage was entered and whose victim was seen."""
    seen: tuple[int, str] = (-1, "")
    """Bytes of the journal at the last look and the stage then."""
    next_look_s: float = 0.0
    """When processes are looked for again."""
    next_stage_s: float = 0.0
    """When the journal is read again though it has not grown."""

    @property
    def root(self) -> Path:
        """Where the session's run folder is made."""
        return self.folder / self.name

    @property
    def run(self) -> Path | None:
        """Its run folder, once it is there."""
        return next(self.root.glob("chaos-*"), None)

    def live(self, stop_s: float) -> None:
        """Start or resume the session and kill what is due, until it is dead or done; at ``stop_s`` kill it anyway."""
        num_before = len(bodies_of(self.run))
        process = self._start(num_before)
        try:
            self._greet(process, num_before)
            while process.poll() is None:
                moment = self._due(process.pid)
                if moment is not None:
                    del self.due_s[moment]
                    if self._kill(MOMENTS[moment], process):
                        self.moments.remove(moment)
                if process.poll() is None and time.monotonic() > stop_s:
                    self.state.cuts.append(self._stage())
                    self._kill_session(process)
                time.sleep(LOOK_S)
            if process.returncode != -signal.SIGKILL:
                self._end(process)
        finally:  # whatever ends this piece ends the session too
            process.kill()
            process.wait()
        self.say(f"embedded, {self.name}: {len(self.state.kills)} kills, now {self._stage()}")

    def _start(self, num_before: int) -> subprocess.Popen[bytes]:
        """Start the process: of a new session where the journal of the old one has no line."""
        self.root.mkdir(exist_ok=True)
        run = self.run
        what = [str(HERE / "chaos.toml")] if num_before == 0 else ["--resume", str(run)]
        if run is not None and num_before == 0:
            run.rename(self.root / f"unstarted-{len(self.state.cuts)}")
        with (self.root / "log.txt").open("ab") as log:
            command = _steptune("tune", *what, "--runs", str(self.root))
            return subprocess.Popen(command, env=environment(self.folder), stdout=log, stderr=log)

    def _greet(self, process: subprocess.Popen[bytes], num_before: int) -> None:
        """Wait until the journal says that the process has begun, and look whether it has found the daemon."""
        while process.poll() is None and len(bodies_of(self.run)) == num_before:
            time.sleep(LOOK_S)
        if self.state.daemon:
            self.state.num_daemons_left += is_daemon(self.state.daemon)
            stop_daemon(self.state.daemon)
            self.state.daemon = 0

    def _stage(self) -> str:
        """Return the stage; the journal is read again where it has grown, and where folders alone tell the stage."""
        run = self.run
        path = None if run is None else run / "journal.jsonl"
        size = path.stat().st_size if path is not None and path.exists() else 0
        if self.seen[0] != size or time.monotonic() >= self.next_stage_s:
            self.seen = (size, stage_of(run, bodies_of(run)))
            self.next_stage_s = time.monotonic() + PROCESSES_S
        return self.seen[1]

    def _due(self, session: int) -> int | None:
        """Return the moment that has come: one after the other, each its drawn seconds after its victim was seen."""
        stage, run, now_s = self._stage() if self.moments else "", self.run, time.monotonic()
        here = [index for index in self.moments if MOMENTS[index].stage == stage]
        if not here or run is None:
            return None
        begun = next((index for index in here if index in self.due_s), None)
        if begun is not None:
            return begun if now_s >= self.due_s[begun] else None
        if MOMENTS[here[0]].kind != "session" and now_s < self.next_look_s:
            return None
        self.next_look_s = now_s + PROCESSES_S
        found = next((index for index in here if victims(run, session, MOMENTS[index].kind)), None)
        if found is not None:
            self.due_s[found] = now_s + random.Random(f"chaos {found}").uniform(*MOMENTS[found].after_s)
        return found if found is not None and now_s >= self.due_s[found] else None

    def _kill(self, moment: Moment, process: subprocess.Popen[bytes]) -> bool:
        """Kill a process of that kind, if one is still there."""
        run = self.run
        found = [] if run is None else victims(run, process.pid, moment.kind)
        if not found:
            return False
        stage = self._stage()
        if moment.kind == "session":
            self._kill_session(process)
            stage = self._stage()  # what it wrote until it was dead counts
        else:
            os.kill(random.Random(f"victim {len(self.state.kills)}").choice(found), signal.SIGKILL)
        self.state.kills.append(f"{stage}/{moment.kind}")
        self.say(f"embedded, {self.name}: killed {moment.kind} in {stage}")
        return True

    def _kill_session(self, process: subprocess.Popen[bytes]) -> None:
        """Kill the session; look what is left, and plant a daemon for the next resume to find."""
        process.kill()
        process.wait()
        time.sleep(ORPHAN_S)
        run = self.run
        assert run is not None, "a started session has a run folder"
        self.state.num_orphans += len(marked(run))
        if self.name == KILLED:
            self.state.kept.look(run)
        self.state.daemon = plant_daemon(run)
        self.state.num_daemons += 1

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        """Book what came of a session that ended by itself."""
        run = self.run
        assert run is not None, "a session that ends has a run folder"
        found = fold([entry.body for entry in read_journal(run / "journal.jsonl")])
        if found.decision is None:
            sys.stderr.write((self.root / "log.txt").read_text(encoding="utf-8")[-2000:])
            self.state.errors.append(process.returncode)
            return
        if self.name == KILLED:
            self.state.kept.look(run)
        verified = subprocess.run(
            _steptune("report", str(run), "--verify"), env=environment(self.folder), check=False, capture_output=True
        )
        self.state.ended[self.name] = {
            "decision": {"outcome": found.decision.outcome, "settings": dict(found.decision.settings)},
            "trials": len(found.ended),
            "failed_trials": sum(event.trial.state is TrialState.FAILED for event in found.ended),
            "tried": [str(event.trial.change) for event in ended_trials(run)],
            "exit_code": process.returncode,
            "repeated": repeated(run),
            "resumes": found.num_resumes,
            "verify_exit_code": verified.returncode,
        }


def _steptune(*words: str) -> list[str]:
    return [sys.executable, "-m", "steptune.cli.main", *words]


def environment(folder: Path) -> Mapping[str, str]:
    """Return the environment of a session: this interpreter's paths, a cache and a machine lock of its own."""
    paths, (cache, temporary) = os.pathsep.join(path for path in sys.path if path), (folder / "cache", folder / "tmp")
    temporary.mkdir(exist_ok=True)
    return {**os.environ, "PYTHONPATH": paths, "XDG_CACHE_HOME": str(cache), "TMPDIR": str(temporary)}
