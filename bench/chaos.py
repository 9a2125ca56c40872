"""Kills sessions at random and holds what comes of them against undisturbed ones.

`python bench/chaos.py` writes `bench/results/chaos.json`; `--quick` makes few kills and writes nothing; `--fake` and
`--embedded` run one half. Fake: SIGKILL at journal lines, half written ones too, and virtual steps; the decision has
to be the undisturbed one. Embedded: SIGKILL of the session or of one of its engine processes at random seconds, and a
daemon that left its session and its parent. Surprise: an engine process that is killed fails its trial, which is a
result; so on the embedded engine nothing is said of the decision, only that no trial is lost, repeated or changed.
"""

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from steptune.adapters.embedded.session import RUN_MARK
from steptune.core.event import TrialEnded
from steptune.store.files import replace
from steptune.store.journal import read_journal
from steptune.store.replay import fold

HERE = Path(__file__).parent
KILLED_SESSION = HERE.parent / "tests" / "tune" / "killed_session.py"
"""Runs sessions on the fake framework and kills them at chosen moments; see there."""

KILLS_OF_A_SESSION = 10
NUM_FAKE_KILLS, NUM_EMBEDDED_KILLS = 100, 10
QUICK_FAKE_KILLS, QUICK_EMBEDDED_KILLS = 10, 2
SPACES = ("pruned", "reward")
MOMENTS = ("step", "step", "before", "torn", "headless", "after")
MOST_STEPS, MOST_LINES = 60, 3
"""Virtual steps and journal lines until a kill; as in tests/tune/test_kill_and_resume.py."""

KILL_AFTER_S = (5.0, 90.0)
"""Seconds until a kill of the embedded session: the profile takes 10 to 40, and one that is never whole is made anew at
every resume; trials, waterfall and confirmation are reached by the longer ones."""

ORPHAN_S = 5.0
"""Seconds after which nothing of a killed session may run."""

TIMEOUT_S = 1800.0


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


class Kept:
    """What was on disk at every kill, which the next look must find again."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.files: dict[str, str] = {}
        self.num_lost = 0

    def look(self, folder: Path) -> None:
        """Count lines and files of finished trials that are gone or changed."""
        lines = (folder / "journal.jsonl").read_text(encoding="utf-8").split("\n")[:-1]
        files = hashes(folder)
        self.num_lost += lines[: len(self.lines)] != self.lines
        self.num_lost += sum(files.get(name) != was for name, was in self.files.items())
        self.lines, self.files = lines, files


def repeated(folder: Path) -> int:
    """Return how many finished trials were run twice or are missing from the count."""
    ended = ended_trials(folder)
    numbers, signatures = [e.trial.number for e in ended], [e.trial.change.signature for e in ended]
    return len(signatures) - len(set(signatures)) + (numbers != list(range(1, len(numbers) + 1)))


def fake(num_kills: int) -> dict[str, object]:
    """Kill sessions on the fake framework."""
    rng, kills, other, lost, twice = random.Random(6), 0, 0, 0, 0
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        undisturbed = {space: _fake_session(root / space, space, []) for space in SPACES}
        while kills < num_kills:
            space, seed = SPACES[(kills // KILLS_OF_A_SESSION) % len(SPACES)], kills
            moments = [("step", rng.randint(1, MOST_STEPS))]
            more = rng.choices(MOMENTS, k=min(KILLS_OF_A_SESSION, num_kills - kills) - 1)
            moments += [(m, rng.randint(1, MOST_STEPS if m == "step" else MOST_LINES)) for m in more]
            told = _fake_session(root / f"{space}-{seed}", space, moments)
            other += told["decision"] != undisturbed[space]["decision"]
            lost, twice = lost + int(str(told["lost"])), twice + int(str(told["repeated"]))
            kills += int(str(told["kills"]))
            print(f"fake: {kills} kills, {other} other decisions, {lost} lost, {twice} repeated", file=sys.stderr)
    return {"kills": kills, "other_decisions": other, "lost": lost, "repeated": twice}


def _fake_session(folder: Path, space: str, moments: list[tuple[str, int]]) -> dict[str, object]:
    folder.mkdir()
    environment = {**os.environ, "TMPDIR": str(folder), "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    orders = "".join(f"{folder} {space} {moment} {count}\n" for moment, count in [*moments, ("never", 0)])
    told = subprocess.Popen(
        [sys.executable, str(KILLED_SESSION)],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert told.stdin is not None
    assert told.stdout is not None
    kept, kills = Kept(), 0
    for order in orders.splitlines():
        told.stdin.write(order + "\n")
        told.stdin.flush()
        kills += int(told.stdout.readline()) == -signal.SIGKILL
        kept.look(next(folder.glob("fake-*")))
    told.communicate()
    run = next(folder.glob("fake-*"))
    decision = fold([entry.body for entry in read_journal(run / "journal.jsonl")]).decision
    assert decision is not None, "a session that nobody kills ends with a decision"
    settled = {"outcome": decision.outcome, "settings": decision.settings}
    return {"decision": settled, "lost": kept.num_lost, "repeated": repeated(run), "kills": kills}


class Session:
    """One session on the embedded engine: started, killed and resumed until it ends."""

    def __init__(self, root: Path, cache: Path) -> None:
        root.mkdir()
        self.root, self.kept = root, Kept()
        self.daemon: subprocess.Popen[bytes] | None = None
        self.environment = {**_environment(), "XDG_CACHE_HOME": str(cache)}
        self.num_orphans, self.num_daemons_left = 0, 0

    @property
    def run(self) -> Path:
        """Its run folder."""
        return next(self.root.glob("chaos-*"))

    def start(self) -> subprocess.Popen[bytes]:
        """Start it, or resume it, and wait until its journal says so."""
        found = sorted(self.root.glob("chaos-*"))
        what = ["--resume", str(found[0])] if found else [str(HERE / "chaos.toml")]
        lines = self._num_lines()
        with (self.root / "log.txt").open("ab") as log:
            command = _steptune("tune", *what, "--runs", str(self.root))
            process = subprocess.Popen(command, env=self.environment, stdout=log, stderr=log)
        while process.poll() is None and self._num_lines() == lines:
            time.sleep(0.05)
        if self.daemon is not None:
            self.num_daemons_left += self.daemon.poll() is None
            self.daemon.kill()
            self.daemon = None
        return process

    def kill(self, process: subprocess.Popen[bytes], victim: int) -> None:
        """Kill ``victim``, then the session; look what is left, and plant a daemon for the next resume to find."""
        os.kill(victim, signal.SIGKILL)
        if victim != process.pid:
            time.sleep(1.0)  # it is the session's to notice; then the session goes too, so that a resume follows
            process.kill()
        process.wait()
        time.sleep(ORPHAN_S)
        self.num_orphans += len(marked(self.run))
        self.kept.look(self.run)
        mark = {**os.environ, RUN_MARK: str(self.run.resolve())}
        self.daemon = subprocess.Popen(["sleep", "900"], env=mark, start_new_session=True)

    def end(self, process: subprocess.Popen[bytes]) -> dict[str, object]:
        """Wait for the end and return what came of it."""
        code = process.wait(TIMEOUT_S)
        if code:
            sys.stderr.write((self.root / "log.txt").read_text(encoding="utf-8")[-2000:])
        self.kept.look(self.run)
        verified = subprocess.run(_steptune("report", str(self.run), "--verify"), env=self.environment, check=False)
        return {
            "trials": len(ended_trials(self.run)),
            "exit_code": code,
            "lost": self.kept.num_lost,
            "repeated": repeated(self.run),
            "orphans_after_5_s": self.num_orphans,
            "escaped_daemons_not_found": self.num_daemons_left,
            "verify_exit_code": verified.returncode,
        }

    def _num_lines(self) -> int:
        return sum(path.read_bytes().count(b"\n") for path in self.root.glob("chaos-*/journal.jsonl"))


def embedded(num_kills: int, root: Path) -> dict[str, object]:
    """Kill sessions on the embedded engine, and their engine processes, until ``num_kills`` were made."""
    rng, kills, ended = random.Random(6), dict.fromkeys(("session", "worker"), 0), list[dict[str, object]]()
    session: Session | None = None
    while sum(kills.values()) < num_kills:
        session = session or Session(root / str(len(ended)), root / "cache")
        process = session.start()
        _sleep_beside(process, rng.uniform(*KILL_AFTER_S))
        if process.poll() is not None:
            ended.append(session.end(process))
            session = None
            continue
        target = "session" if sum(kills.values()) % 2 == 0 else "worker"
        workers = [pid for pid in marked(session.run) if pid != process.pid]
        session.kill(process, rng.choice(workers) if target == "worker" and workers else process.pid)
        kills[target if workers else "session"] += 1
        print(f"embedded: {kills}, {len(ended_trials(session.run))} trials ended", file=sys.stderr)
    if session is not None:
        ended.append(session.end(session.start()))
    totals = {name: sum(int(str(one[name])) for one in ended) for name in ended[0]}
    return {"kills": kills, "sessions": len(ended), **totals}


def _sleep_beside(process: subprocess.Popen[bytes], seconds: float) -> None:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return


def _steptune(*words: str) -> list[str]:
    return [sys.executable, "-m", "steptune.cli.main", *words]


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}


def marked(run: Path) -> list[int]:
    """Return processes that carry the mark of ``run``, planted daemons left out."""
    found: list[int] = []
    wanted = f"{RUN_MARK}={run.resolve()}".encode()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            is_ours = wanted in (entry / "environ").read_bytes().split(b"\0")
            is_daemon = (entry / "cmdline").read_bytes().startswith(b"sleep\0")
        except OSError:
            continue
        if is_ours and not is_daemon:
            found.append(int(entry.name))
    return found


def main() -> int:
    """Run both halves; exit 1 where anything was lost, repeated or left running."""
    is_quick = "--quick" in sys.argv
    result: dict[str, dict[str, object]] = {}
    if "--embedded" not in sys.argv:
        result["fake"] = fake(QUICK_FAKE_KILLS if is_quick else NUM_FAKE_KILLS)
    if "--fake" not in sys.argv:
        with tempfile.TemporaryDirectory() as name:
            result["embedded"] = embedded(QUICK_EMBEDDED_KILLS if is_quick else NUM_EMBEDDED_KILLS, Path(name))
    text = json.dumps(result, indent=2) + "\n"
    print(text)
    if not is_quick and len(result) == 2:
        replace(HERE / "results" / "chaos.json", text)
    bad = (
        "exit_code",
        "verify_exit_code",
        "other_decisions",
        "lost",
        "repeated",
        "orphans_after_5_s",
        "escaped_daemons_not_found",
    )
    return int(any(part.get(name) for part in result.values() for name in bad))


if __name__ == "__main__":
    sys.exit(main())
