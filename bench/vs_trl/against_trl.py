"""Ours against TRL 1.16 on the same model, prompts, forced lengths and optimizer, on the same two cores.

`.venv-peers/bin/python bench/vs_trl/against_trl.py [--shape dense] [--quick]` (the environment of `make test-peers`)
writes `bench/results/vs_trl_SHAPE.json`. Arms run in processes of their own and take turns in blocks; a block's first
step is warm-up. First every candidate of *TRL tuned*, *ours* and *ours overlapped* runs one block and the fastest of
each is kept; then the five arms are measured, and our levers added one by one. Targets (dense): 1.5 and 2.2 times TRL
tuned; SmolLM2's shape: 1.3 times.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "src")]

import arms as table  # noqa: E402
from arms import Arm  # noqa: E402
from same_work import SHAPES, SIZES, lengths_of  # noqa: E402

from steptune.adapters.embedded.idle import ASLEEP  # noqa: E402
from steptune.stats.ratio import ratio_interval  # noqa: E402
from steptune.store.files import replace  # noqa: E402
from steptune.store.lock import machine_lock  # noqa: E402

BLOCK_STEPS = 3
"""Steps per block; the first is dropped."""

ENVIRONMENT = {"TOKENIZERS_PARALLELISM": "false"}
"""Idle threads wait as torch leaves them, whatever this process was told of them: a paused arm costs nothing, since
they stop spinning by themselves. `idle_threads.py` has the same arms with threads that sleep, which are slower."""


TARGETS = {
    "dense": {"ours over TRL tuned": 1.5, "ours overlapped over TRL tuned": 2.2},
    "smollm2": {"ours over TRL tuned": 1.3},
}


def as_torch_waits(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment that leaves to torch how idle threads wait."""
    return {name: value for name, value in environment.items() if name not in ASLEEP}


class Process:
    """An arm's process."""

    def __init__(self, shape: str, arm: Arm, environment: Mapping[str, str] = ENVIRONMENT) -> None:
        self.arm = arm
        self.blocks: list[list[float]] = []
        command = [sys.executable, "-W", "ignore", str(HERE / "child.py"), shape, arm.model_dump_json()]
        self.child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**as_torch_waits(os.environ), **environment},
        )
        self._answer("ready")

    def run_block(self, num_steps: int = BLOCK_STEPS) -> float:
        """Run a block and return its mean seconds per step, warm-up dropped."""
        assert self.child.stdin is not None
        self.child.stdin.write(f"go {num_steps}\n")
        self.child.stdin.flush()
        kept = self._answer("done")[1:]
        self.blocks.append(kept)
        return sum(kept) / len(kept)

    def close(self) -> None:
        """Hang up; a child that does not leave is ended."""
        assert self.child.stdin is not None
        self.child.stdin.close()
        try:
            self.child.wait(20)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()

    def _answer(self, word: str) -> list[float]:
        assert self.child.stdout is not None
        line = self.child.stdout.readline()
        assert line.startswith(word), f"{self.arm.name}: said {line!r} instead of {word!r}"
        return json.loads(line.removeprefix(word))


def fitting(shape: str, candidates: tuple[Arm, ...]) -> tuple[Arm, ...]:
    """Return TRL's candidates whose micro-batch divides the step's rollouts."""
    rows = SIZES[shape].prompts * SIZES[shape].group_size
    return tuple(arm for arm in candidates if rows % arm.settings["per_device_train_batch_size"] == 0)


def fastest(shape: str, candidates: tuple[Arm, ...], trials: dict[str, float]) -> Arm:
    """Return the candidate whose second block is the fastest: one rule for both sides."""
    for arm in candidates:
        process = Process(shape, arm)
        process.run_block(2)
        trials[arm.name] = round(process.run_block(), 4)
        process.close()
        print(f"candidate {arm.name}: {trials[arm.name]:.3f} s", file=sys.stderr)
    return min(candidates, key=lambda arm: trials[arm.name])


def measure(shape: str, arms: dict[str, Arm], rounds: int) -> dict[str, list[float]]:
    """Return block means of every arm, one per round, arms taking turns (every other round backwards)."""
    with ExitStack() as stack:
        running = {}
        for name, arm in arms.items():
            running[name] = Process(shape, arm)
            stack.callback(running[name].close)
            running[name].run_block(2)
        means: dict[str, list[float]] = {name: [] for name in arms}
        for number in range(rounds):
            for name in list(arms) if number % 2 == 0 else list(reversed(arms)):
                means[name].append(running[name].run_block())
            print(f"round {number + 1}: " + ", ".join(f"{n} {m[-1]:.3f}" for n, m in means.items()), file=sys.stderr)
    return means


def ratio(means: dict[str, list[float]], slow: str, fast: str) -> dict[str, object]:
    """Return how many times as fast ``fast`` is, with its 95 % interval over paired blocks."""
    interval = ratio_interval(means[slow], means[fast])
    return {
        "value": round(interval.value, 3),
        "low": round(interval.low, 3),
        "high": round(interval.high, 3),
        "n": interval.n,
    }


def main() -> int:
    """Tune, measure, print and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", choices=sorted(SHAPES), default="dense")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--compile", action="store_true", help="also try TRL with torch_compile")
    parser.add_argument("--no-levers", action="store_true", help="five arms only: nine of SmolLM2 do not fit in 24 GB")
    parser.add_argument("--quick", action="store_true", help="two rounds, nothing written")
    options = parser.parse_args()
    rounds = 2 if options.quick else options.rounds
    trials: dict[str, float] = {}
    started_s, load = time.monotonic(), os.getloadavg()[0]
    with machine_lock(lambda pid, s: None):
        trl = (*table.TRL_CANDIDATES, *((table.TRL_COMPILED,) if options.compile else ()))
        arms = {
            "TRL default": table.TRL_DEFAULT,
            "TRL as advised": table.TRL_ADVISED,
            "TRL tuned": fastest(options.shape, fitting(options.shape, trl), trials),
            "ours": fastest(options.shape, table.OUR_CANDIDATES, trials),
            "ours overlapped": fastest(options.shape, table.OVERLAPPED_CANDIDATES, trials),
        }
        levers = {} if options.no_levers else table.lever_arms(arms["ours"])
        means = measure(options.shape, arms | levers, rounds)
    lengths = lengths_of(options.shape)
    result = {
        "what": "wall seconds per GRPO step: same shape, prompts, forced lengths and AdamW, 2 cores, paired blocks",
        "shape": SHAPES[options.shape].model_dump(mode="json"),
        "rollouts_per_step": lengths.rollouts_per_step,
        "mean_completion_len": round(sum(lengths.completion) / len(lengths.completion), 2),
        "candidates_s": trials,
        "arms": {
            n: {"chosen": a.name, "settings": a.settings, "blocks_s": [round(m, 4) for m in means[n]]}
            for n, a in (arms | levers).items()
        },
        "ratios": {
            f"{fast} over {slow}": ratio(means, slow, fast)
            for slow, fast in [
                ("TRL default", "TRL tuned"),
                ("TRL default", "ours"),
                ("TRL default", "ours overlapped"),
                ("TRL as advised", "ours"),
                ("TRL tuned", "ours"),
                ("TRL tuned", "ours overlapped"),
                ("ours", "ours overlapped"),
                *(pairwise(("TRL tuned", *levers, "ours")) if levers else ()),
            ]
        },
        "targets": TARGETS.get(options.shape, {}),
        "versions": {name: version(name) for name in ("trl", "transformers", "torch")},
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, load {load:.2f} at the start",
        "wall_s": round(time.monotonic() - started_s),
        "date": time.strftime("%Y-%m-%d"),
    }
    print(json.dumps(result["ratios"], indent=2))
    if not options.quick:
        replace(HERE.parent / "results" / f"vs_trl_{options.shape}.json", json.dumps(result, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
