"""What threads that sleep cost: TRL tuned, ours and ours overlapped, with threads asleep and with threads that spin.

`.venv-peers/bin/python bench/vs_trl/idle_threads.py [--quick]` writes `bench/results/idle_threads.json` in about four
minutes; `--shape moe` and `--shape smollm2` write a file of their own, `--spin-only` leaves out the first half. The
arms are those that `against_trl.py` had chosen (`bench/results/vs_trl_<shape>.json`), each once under
`OMP_WAIT_POLICY=passive` and once as torch leaves it; processes take turns in blocks, forth and back, the first step of
a block is dropped. Surprise: a paused arm costs nothing either way, since its threads stop spinning by themselves, and
the setting that was meant to be fair made every arm with two threads slower.
"""

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "src")]

from against_trl import ENVIRONMENT, Process  # noqa: E402
from arms import Arm  # noqa: E402
from same_work import SHAPES  # noqa: E402

from steptune.adapters.embedded.idle import ASLEEP  # noqa: E402
from steptune.stats.ratio import block_means, ratio_interval  # noqa: E402
from steptune.store.files import replace  # noqa: E402
from steptune.store.lock import machine_lock  # noqa: E402

RESULTS = HERE.parent / "results"
NUM_ROUNDS = 6

HABITS = {"sleep": ENVIRONMENT | ASLEEP, "spin": ENVIRONMENT}

Found = dict[str, dict[str, list[list[float]]]]
"""Seconds per kept step by habit, arm and block."""

ARMS = {"TRL tuned": "trl", "ours": "ours", "ours overlapped": "ours"}

RATIOS = [
    ("ours over TRL tuned", "TRL tuned", "ours"),
    ("ours overlapped over TRL tuned", "TRL tuned", "ours overlapped"),
    ("overlap over ours", "ours", "ours overlapped"),
]


def chosen_arms(shape: str) -> list[Arm]:
    """Return the arms as `against_trl.py` had chosen them."""
    saved = json.loads((RESULTS / f"vs_trl_{shape}.json").read_text(encoding="utf-8"))["arms"]
    return [Arm(name=name, side=side, settings=saved[name]["settings"]) for name, side in ARMS.items()]


def measured(shape: str, habits: Mapping[str, Mapping[str, str]], num_rounds: int) -> Found:
    """Return seconds per kept step by threads' habit, arm and block."""
    with ExitStack() as stack:
        processes: list[tuple[str, Process]] = []
        for habit, environment in habits.items():
            for arm in chosen_arms(shape):
                process = Process(shape, arm, environment)
                stack.callback(process.close)
                processes.append((habit, process))
        for number in range(num_rounds):
            for _, process in processes if number % 2 == 0 else processes[::-1]:
                process.run_block()
        found: Found = {habit: {} for habit in habits}
        for habit, process in processes:
            found[habit][process.arm.name] = process.blocks
    return found


def ratios(found: Found) -> dict[str, dict[str, object]]:
    """Return every ratio of mean step times with its 95 % interval, blocks paired by round."""
    pairs = {
        f"{what}, {habit}": (arms[slow], arms[fast]) for habit, arms in found.items() for what, slow, fast in RATIOS
    }
    if len(found) > 1:
        pairs |= {f"sleep over spin, {name}": (found["sleep"][name], found["spin"][name]) for name in ARMS}
    rows: dict[str, dict[str, object]] = {}
    for what, (slow, fast) in pairs.items():
        gain = ratio_interval(block_means(slow), block_means(fast))
        rows[what] = {"times": round(gain.value, 3), "low": round(gain.low, 3), "high": round(gain.high, 3)}
    return rows


def main() -> int:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two rounds, nothing written")
    parser.add_argument("--shape", choices=sorted(SHAPES), default="dense")
    parser.add_argument("--rounds", type=int, default=NUM_ROUNDS)
    parser.add_argument("--spin-only", action="store_true", help="no arm whose threads sleep")
    options = parser.parse_args()
    rounds = 2 if options.quick else options.rounds
    habits = {"spin": ENVIRONMENT} if options.spin_only else HABITS
    load, start_s = os.getloadavg()[0], time.monotonic()
    with machine_lock(lambda pid, s: print(f"waiting for process {pid}", file=sys.stderr) if s == 0 else None):
        found = measured(options.shape, habits, rounds)
    result = {
        "what": "wall seconds per GRPO step, 2 cores, idle threads asleep or spinning",
        "shape": options.shape,
        "date": time.strftime("%Y-%m-%d"),
        "machine": {"processor": platform.processor() or platform.machine(), "cores": os.cpu_count(), "load": load},
        "versions": {name: version(name) for name in ("trl", "transformers", "torch")},
        "took_s": round(time.monotonic() - start_s),
        "num_blocks": rounds,
        "ratios": ratios(found),
        "blocks_s": found,
    }
    print(json.dumps(result, indent=2))
    if not options.quick:
        replace(
            RESULTS / ("idle_threads.json" if options.shape == "dense" else f"idle_threads_{options.shape}.json"),
            json.dumps(result, indent=2) + "\n",
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
