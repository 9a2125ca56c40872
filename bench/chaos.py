"""Kills sessions at random and holds what comes of them against undisturbed ones.

`python bench/chaos.py` writes `bench/results/chaos.json`; `--quick` makes few kills and writes nothing; `--half` runs
one half, and `--folder F --minutes 4` the embedded one in pieces (exit code 3: call it again). Fake: SIGKILL at journal
lines, half written ones too, and virtual steps; the decision has to be the undisturbed one. Embedded: SIGKILL of the
session, of an engine run or of the process that helps it, at every stage of one session beside a calm one, and after
every kill of the session a daemon that left it. Surprise: a killed session is resumed, but one whose run or helper is
killed is left alone, for it has to go on by itself.
"""

import argparse
import json
import math
import os
import random
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from chaos_embedded import embedded
from chaos_kept import Kept, repeated
from chaos_moments import MOMENTS
from steptune.store.files import replace
from steptune.store.journal import read_journal
from steptune.store.replay import fold

HERE = Path(__file__).resolve().parent
KILLED_SESSION = HERE.parent / "tests" / "tune" / "killed_session.py"
"""Runs sessions on the fake framework and kills them at chosen moments; see there."""

KILLS_OF_A_SESSION = 10
NUM_FAKE_KILLS, NUM_EMBEDDED_KILLS = 100, len(MOMENTS)
QUICK_FAKE_KILLS, QUICK_EMBEDDED_KILLS = 10, 2
SPACES = ("pruned", "reward")
MOMENTS = ("step", "step", "before", "torn", "headless", "after")
MOST_STEPS, MOST_LINES = 60, 3
"""Virtual steps and journal lines until a kill; as in tests/tune/test_kill_and_resume.py."""

RESULT = HERE / "results" / "chaos.json"

BAD = (
    "exit_code",
    "verify_exit_code",
    "other_decisions",
    "lost",
    "repeated",
    "orphans_after_5_s",
    "escaped_daemons_not_found",
)
"""What may not be anything but 0."""


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


def main() -> int:
    """Run a half, or both; exit 1 where anything was lost, repeated or left running, 3 where the time was up before."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few kills, nothing written")
    parser.add_argument("--half", choices=("fake", "embedded"))
    parser.add_argument("--folder", type=Path, help="where the embedded half goes on from, or leaves off")
    parser.add_argument("--minutes", type=float, default=math.inf, help="of the embedded half; then it leaves off")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(4))  # a piece that is stopped leaves no session behind
    result: dict[str, dict[str, object]] = {}
    if given.half != "embedded":
        result["fake"] = fake(QUICK_FAKE_KILLS if given.quick else NUM_FAKE_KILLS)
    if given.half != "fake":
        num = QUICK_EMBEDDED_KILLS if given.quick else NUM_EMBEDDED_KILLS
        with tempfile.TemporaryDirectory() as name:
            made = embedded(num, given.folder or Path(name), given.minutes, lambda line: print(line, file=sys.stderr))
        if made is None:
            return 3
        result["embedded"] = made
    print(json.dumps(result, indent=2))
    if not given.quick:
        before = json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.exists() else {}
        replace(RESULT, json.dumps({**before, **result}, indent=2) + "\n")
    return int(any(part.get(name) for part in result.values() for name in BAD))


if __name__ == "__main__":
    sys.exit(main())
