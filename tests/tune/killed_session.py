"""A process that runs sessions on the fake framework and lets them be killed with SIGKILL at chosen moments.

`test_kill_and_resume.py` starts it once, so that what a session imports is loaded once, and writes lines
``FOLDER SPACE MOMENT COUNT``. For each it forks a child that starts or resumes the session in FOLDER, and prints
the child's exit code. Moments::

    step      at the COUNT-th virtual step
    before    before the COUNT-th line is appended to the journal
    torn      with half of that line written
    headless  with the line written, but the journal's head not yet
    after     with both written, but no view
    never     runs to the end
"""

import os
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path

from steptune.core.job import BudgetSpec, GuardSpec, JobSpec
from steptune.store import journal
from steptune.testing.fake_framework import FakeFramework
from steptune.testing.fake_space import COMPACTION, LAZY_ANSWERS, PACKING, PLACEBO
from steptune.tune import session, verify

SPACES = {"pruned": (PACKING, COMPACTION, PLACEBO), "reward": (PACKING, LAZY_ANSWERS)}


class Killer:
    """Counts moments and dies at the chosen one."""

    def __init__(self, moment: str, count: int) -> None:
        self.moment = moment
        self.count = count

    def passes(self, moment: str) -> bool:
        """Count one ``moment``; return whether it is the last."""
        if moment != self.moment:
            return False
        self.count -= 1
        return self.count == 0

    def at(self, moment: str) -> None:
        if self.passes(moment):
            os.kill(os.getpid(), signal.SIGKILL)


def watch_journal(killer: Killer) -> None:
    append_bytes, write_head = journal._append_bytes, journal._write_head
    append = journal.Journal.append

    def half(path: Path, line: bytes, num_bytes: int) -> None:
        killer.at("before")
        if killer.passes("torn"):
            append_bytes(path, line[: len(line) // 2], num_bytes)
            os.kill(os.getpid(), signal.SIGKILL)
        append_bytes(path, line, num_bytes)

    def headless(path: Path, entry: journal.Entry) -> None:
        killer.at("headless")
        write_head(path, entry)

    def whole(self: journal.Journal, event: object) -> journal.Entry:
        entry = append(self, event)  # type: ignore[arg-type]
        killer.at("after")
        return entry

    journal._append_bytes, journal._write_head = half, headless
    journal.Journal.append = whole  # type: ignore[method-assign]


def run(folder: Path, space: str, killer: Killer) -> None:
    """Start the session in ``folder``, or resume the one that is there."""
    session.code_hash = verify.code_hash = lambda: "c0de"
    watch_journal(killer)
    framework = FakeFramework(knob_table=SPACES[space], on_step=lambda: killer.at("step"))
    budget = BudgetSpec(device_time_s=1e6, wall_time_s=1e6)
    job = JobSpec(name="fake", framework="fake", budget=budget, guard=GuardSpec(reward_seeds=3, reward_steps=20))
    options = session.TuneOptions(root=folder)
    found = sorted(folder.glob("fake-*"))
    if found:
        session.resume_session(found[0], framework, options, now, say)
    else:
        session.start_session(job, framework, options, now, say)


def now() -> datetime:
    return datetime.now(UTC)


def say(line: str) -> None:
    sys.stderr.write(line + "\n")


def main() -> None:
    for line in sys.stdin:
        folder, space, moment, count = line.split()
        child = os.fork()
        if child == 0:
            run(Path(folder), space, Killer(moment, int(count)))
            sys.exit(0)
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
