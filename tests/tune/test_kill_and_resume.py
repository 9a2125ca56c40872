"""`kill -9` at any moment: nothing finished is lost or repeated, and the answer stays the same."""

import hashlib
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from killed_session import SPACES

from steptune.core.event import Event, Forecasted, SessionEnded, SessionResumed, TrialEnded
from steptune.core.records import canonical_json
from steptune.store.journal import read_journal
from steptune.store.replay import fold
from steptune.store.run_folder import RunFolder
from steptune.testing.fake_framework import FakeFramework
from steptune.tune.verify import verify

SCRIPT = Path(__file__).with_name("killed_session.py")

NUM_KILLS = 10

STEPS = (1, 60)
"""Virtual steps until a kill: the profile takes 36, a trial 6 to 34, the confirmation 86."""

LINES = (1, 3)
"""Journal lines until a kill: a resume writes one, a trial two to four."""


class Runner:
    """Talks to `killed_session.py`."""

    def __init__(self, temporary: Path) -> None:
        environment = {**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": os.pathsep.join(sys.path)}
        self.log = (temporary / "log.txt").open("w+")
        self.process = subprocess.Popen(
            [sys.executable, str(SCRIPT)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            start_new_session=True,
        )

    def run(self, folder: Path, space: str, moment: str, count: int = 0) -> int:
        """Run one session process to its end and return its exit code."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        folder.mkdir(exist_ok=True)
        self.process.stdin.write(f"{folder} {space} {moment} {count}\n")
        self.process.stdin.flush()
        code = int(self.process.stdout.readline())
        assert code in (0, -signal.SIGKILL), (self.log.seek(0), self.log.read())
        return code

    def close(self) -> None:
        """End it; nothing of its process group may be left."""
        self.process.communicate(timeout=60)
        self.log.close()
        with pytest.raises(ProcessLookupError):
            os.killpg(self.process.pid, 0)


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    made = Runner(tmp_path_factory.mktemp("runner"))
    yield made
    made.close()


def run_folder(folder: Path) -> Path:
    (found,) = folder.glob("fake-*")
    return found


def events_of(folder: Path) -> list[Event]:
    return [entry.body for entry in read_journal(run_folder(folder) / "journal.jsonl")]


def finished(events: list[Event]) -> list[TrialEnded]:
    return [event for event in events if isinstance(event, TrialEnded)]


def contents(folder: Path, ended: list[TrialEnded]) -> dict[str, str]:
    """Return a hash of every file of every finished trial."""
    found: dict[str, str] = {}
    for event in ended:
        name = f"{event.trial.number}-{event.trial.change.signature}"
        for path in sorted((run_folder(folder) / "trials").glob(f"{name}*/**/*.json")):
            found[str(path.relative_to(folder))] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


@pytest.mark.parametrize(("space", "seed"), [("pruned", 3), ("pruned", 5), ("reward", 3), ("reward", 4)])
def test_a_session_killed_ten_times_loses_and_repeats_nothing(
    space: str, seed: int, tmp_path: Path, runner: Runner
) -> None:
    rng = random.Random(seed)
    killed, undisturbed = tmp_path / "killed", tmp_path / "undisturbed"
    lines: list[str] = []
    files: dict[str, str] = {}
    # the first moment comes after the session's first line: before it there is no session to lose
    moments = [("step", rng.randint(*STEPS))] + [
        (moment, rng.randint(*(STEPS if moment == "step" else LINES)))
        for moment in rng.choices(["step", "step", "before", "torn", "headless", "after"], k=NUM_KILLS - 1)
    ]
    for moment, count in moments:
        assert runner.run(killed, space, moment, count) == -signal.SIGKILL, (moment, count)
        now = _whole_lines(run_folder(killed))
        assert now[: len(lines)] == lines, "a line that was on disk is gone"
        lines, files = now, {**files, **contents(killed, finished(events_of(killed)))}
    assert runner.run(killed, space, "never") == 0
    assert runner.run(undisturbed, space, "never") == 0

    events = events_of(killed)
    ended = finished(events)
    numbers = [event.trial.number for event in ended]
    assert numbers == list(range(1, len(ended) + 1))
    signatures = [event.trial.change.signature for event in ended]
    assert len(set(signatures)) == len(signatures), "a finished trial was repeated"
    # a process that is killed at its first line does not say that it resumed
    assert NUM_KILLS // 2 <= sum(isinstance(event, SessionResumed) for event in events) <= NUM_KILLS
    assert _whole_lines(run_folder(killed))[: len(lines)] == lines
    assert files.items() <= contents(killed, ended).items(), "a file of a finished trial changed"

    forecasts = [canonical_json(event) for event in events if isinstance(event, Forecasted)]
    assert len(set(forecasts)) == len(forecasts), "a forecast was written twice"

    ours, theirs = fold(events), fold(events_of(undisturbed))
    assert ours.decision is not None
    assert theirs.decision is not None
    assert ours.decision.outcome == theirs.decision.outcome
    assert ours.decision.settings == theirs.decision.settings
    assert signatures == [event.trial.change.signature for event in theirs.ended]
    assert isinstance(events[-1], SessionEnded)
    assert (run_folder(killed) / "tuned.toml").read_bytes() == (run_folder(undisturbed) / "tuned.toml").read_bytes()
    knobs = FakeFramework(knob_table=SPACES[space]).knobs(RunFolder.open(run_folder(killed)).job())
    assert verify(RunFolder.open(run_folder(killed)), knobs) == []


def test_a_session_killed_between_its_decision_and_its_end_is_finished_by_a_resume(
    tmp_path: Path, runner: Runner
) -> None:
    # the number of lines up to the decision is read off an undisturbed run of the same space
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    runner.run(whole, "pruned", "never")
    decided = [event.kind for event in events_of(whole)].index("decided") + 1
    assert runner.run(killed, "pruned", "after", decided) == -signal.SIGKILL
    assert not (run_folder(killed) / "tuned.toml").exists()
    assert runner.run(killed, "pruned", "never") == 0
    assert (run_folder(killed) / "tuned.toml").exists()
    kinds = [event.kind for event in events_of(killed)]
    assert kinds.count("decided") == 1
    assert kinds[-2:] == ["session_resumed", "session_ended"]


def _whole_lines(path: Path) -> list[str]:
    text = (path / "journal.jsonl").read_text()
    return text.split("\n")[:-1]
