"""Overlap against our own tuned synchronous setting on the 4 M dense model: sync, partial, one step off, stream.

`python bench/async.py [--quick]` (under five minutes; under a minute with `--quick`, which writes nothing)
writes `bench/results/async.json`. Model, prompts and lengths are those of `bench/vs_trl/same_work.py`. Arms run in
processes of their own and take turns in blocks; a block's first steps are warm-up. A pause gives the overlapped arms
some groups for nothing, so a block drops as many steps as the arm may run ahead. An arm with a queue (the streams and
partial rollouts) counts only where queue and age have no trend over the kept steps and every token is trained, dropped
or buffered. Target: 1.3 times sync. Counts beside the times: decode iterations a step, tokens trained on for each, and
how long the rows trained on are against all that were made.

Bookkeeping: spans and counts per step x the measured cost of one, hashes included, as a share of the step.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import fmean

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "vs_trl"), str(HERE.parent / "src")]

import torch  # noqa: E402
from arms import OUR_CANDIDATES  # noqa: E402
from same_work import SEED, job, lengths_of  # noqa: E402

from steptune.adapters.embedded.idle import ASLEEP, is_crowded  # noqa: E402
from steptune.core.job import JobSpec  # noqa: E402
from steptune.core.phase import Role  # noqa: E402
from steptune.core.trial import Observation  # noqa: E402
from steptune.engine.events import Recorder, open_events  # noqa: E402
from steptune.engine.knobs import EngineKnobs  # noqa: E402
from steptune.engine.loop import Loop, LoopSpec  # noqa: E402
from steptune.engine.model import build_model  # noqa: E402
from steptune.engine.produce import TOKENIZER  # noqa: E402
from steptune.engine.tensor_hash import tensor_hash  # noqa: E402
from steptune.stats.ratio import ratio_interval  # noqa: E402
from steptune.store.files import replace  # noqa: E402
from steptune.store.lock import machine_lock  # noqa: E402

MAX_LAG = 2
"""Updates: the asynchronous arm may run two steps ahead, one-step-off one."""

OVER_SAMPLING = 1.5
"""Groups in the making over a step's, in the arm with partial rollouts."""

WARM_UP = 1 + MAX_LAG
"""Steps dropped at the start of every block, of every arm alike."""

TARGET = 1.3

ONE_THREAD, AT_ONCE = "sync, one thread", "two of them at once"
"""Two whole runs of one thread each share nothing and never wait for each other: half their step time is about the
most that overlapping the same work can reach on these two cores, which also share caches and memory."""

OVERLAP = {"rollout_threads": 1, "train_threads": 1, "correction": "tis"}
SYNC = {**OUR_CANDIDATES[3].settings, "handover": "alias", "compile": True}
ARMS = {
    "sync": SYNC,
    ONE_THREAD: {**SYNC, "rollout_threads": 1, "train_threads": 1},
    AT_ONCE: {**SYNC, "rollout_threads": 1, "train_threads": 1},
    "one step off": {**SYNC, **OVERLAP, "schedule": "one_step_off", "handover": "copy"},
    "one step off, trainer on two": {
        **SYNC,
        **OVERLAP,
        "train_threads": 2,
        "schedule": "one_step_off",
        "handover": "copy",
    },
    "partial": {**SYNC, "partial_rollout": OVER_SAMPLING, "max_lag": 1, "correction": "tis"},
    "stream": {**SYNC, **OVERLAP, "schedule": "async", "max_lag": MAX_LAG, "handover": "copy"},
    "stream, in flight": {
        **SYNC,
        **OVERLAP,
        "schedule": "async",
        "max_lag": MAX_LAG,
        "inflight_update": True,
        "handover": "copy",
    },
}
"""Sync is the fp32 candidate that `bench/vs_trl/against_trl.py` chose as the fastest, on both cores, tensors shared;
the trainer's layers are compiled there as in every arm."""


def environment_of(name: str) -> dict[str, str]:
    """Return the environment of an arm: idle threads wait as torch leaves them, asleep where cores are short."""
    knobs = EngineKnobs.model_validate(ARMS[name])
    inherited = {key: value for key, value in os.environ.items() if key not in ASLEEP}
    return {**inherited, **(ASLEEP if is_crowded(knobs, os.cpu_count() or 1) else {})}


def spec_of() -> JobSpec:
    """Return the job, with the owner's leave for the age that the arms need."""
    spec = job("dense")
    limits = spec.limits.model_copy(update={"max_staleness": MAX_LAG, "allow_corrections": True})
    return spec.model_copy(update={"limits": limits})


def child(name: str) -> int:
    """Run one arm: every line on stdin is a number of steps, every answer their observations."""
    answers, sys.stdout = sys.stdout, sys.stderr
    spec, knobs = spec_of(), EngineKnobs.model_validate(ARMS[name])
    torch.set_num_threads(knobs.train_threads)
    model = build_model(spec.model, TOKENIZER.vocab_size, seed=0)
    start = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    with tempfile.TemporaryDirectory() as folder:
        forced = lengths_of("dense")
        loop = Loop(
            LoopSpec(job=spec, knobs=knobs, seed=SEED, forced=forced, capture_batches=0, folder=Path(folder)),
            model,
            start,
        )
        try:
            for line in sys.stdin:
                made = [loop.step().model_dump(mode="json") for _ in range(int(line))]
                loop.settle()
                print(json.dumps(made), file=answers, flush=True)
        finally:
            loop.close()
    return 0


class Arm:
    """The parent's end of an arm."""

    def __init__(self, name: str) -> None:
        command = [sys.executable, "-W", "ignore", str(Path(__file__).resolve()), "--arm", name]
        self.children = [
            subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment_of(name)
            )
            for _ in range(2 if name == AT_ONCE else 1)
        ]
        self.blocks: list[list[Observation]] = []

    def run(self, num_steps: int, warm_up: int = 0) -> list[Observation]:
        """Run steps and return them, of every process, but for the first ``warm_up``."""
        for child in self.children:
            assert child.stdin is not None
            child.stdin.write(f"{num_steps}\n")
            child.stdin.flush()
        made: list[Observation] = []
        for child in self.children:
            assert child.stdout is not None
            made += [Observation.model_validate(o) for o in json.loads(child.stdout.readline())[warm_up:]]
        return made

    def close(self) -> None:
        """Hang up; a child that does not leave is ended."""
        for child in self.children:
            assert child.stdin is not None
            child.stdin.close()
            try:
                child.wait(30)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


def measure(rounds: int, kept: int) -> dict[str, list[list[Observation]]]:
    """Return the kept steps of every arm, block by block, arms taking turns (every other round backwards)."""
    with ExitStack() as stack:
        arms = {name: Arm(name) for name in ARMS}
        for arm in arms.values():
            stack.callback(arm.close)
            arm.run(1)
        for number in range(rounds):
            for name in list(arms) if number % 2 == 0 else list(reversed(arms)):
                arms[name].blocks.append(arms[name].run(WARM_UP + kept, WARM_UP))
            last = ", ".join(f"{n} {seconds(a.blocks[-1]):.3f}" for n, a in arms.items())
            print(f"round {number + 1}: {last}", file=sys.stderr)
        return {name: arm.blocks for name, arm in arms.items()}


def seconds(block: Sequence[Observation]) -> float:
    """Return the mean step time of a block."""
    return fmean(step.step_time_s for step in block)


def waits(steps: Sequence[Observation]) -> dict[str, float]:
    """Return each role's exposed wait per step, in seconds."""
    found = {str(role): 0.0 for role in (Role.TRAINER, Role.ROLLOUT)}
    for step in steps:
        for span in step.spans:
            if span.kind == "exposed_wait" and "/" not in span.phase and span.role in found:
                found[span.role] += span.seconds / len(steps)
    return {role: round(wait_s, 4) for role, wait_s in found.items()}


def steadiness(blocks: Sequence[Sequence[Observation]]) -> dict[str, object]:
    """Return whether queue and age have no trend: inside no block does the mean of the second half leave the first's.

    Half an update or half a step's groups of difference is what the grain of steps makes.
    """
    ages, queues, is_conserved = list[float](), list[float](), True
    for block in blocks:
        half = len(block) // 2
        stats = [step.queue for step in block if step.queue is not None]
        is_conserved &= all(q.groups.is_conserved and q.tokens.is_conserved for q in stats)
        ages.append(fmean(q.lag_mean for q in stats[half:]) - fmean(q.lag_mean for q in stats[:half]))
        per_step = spec_of().algorithm.prompts_per_step
        buffered = [q.groups.buffered / per_step for q in stats]
        queues.append(fmean(buffered[half:]) - fmean(buffered[:half]))
    last = blocks[-1][-1].queue
    drift = max(abs(fmean(ages)), abs(fmean(queues)))
    return {
        "is_conserved": is_conserved,
        "age_drift_updates": round(fmean(ages), 3),
        "queue_drift_steps": round(fmean(queues), 3),
        "is_steady": is_conserved and drift <= 0.5,
        "lag_mean": round(fmean(s.queue.lag_mean for b in blocks for s in b if s.queue is not None), 3),
        "lag_max": max(step.lag_max for block in blocks for step in block),
        "tokens": None if last is None else last.tokens.model_dump(),
        "length_bias": None if last is None or last.length_bias is None else round(last.length_bias, 4),
    }


def decoding(steps: Sequence[Observation]) -> dict[str, float]:
    """Return decode iterations a step, and tokens trained on for each: the rows that were decoding, in the long run."""
    iterations, tokens = sum(step.decode_iterations for step in steps), sum(step.completion_tokens for step in steps)
    return {
        "iterations_per_step": round(iterations / len(steps), 1),
        "tokens_per_iteration": round(tokens / max(1, iterations), 1),
    }


def bookkeeping(step_s: float) -> dict[str, object]:
    """Return what spans, counts and hashes of a step cost, and their share of a synchronous step of ``step_s``."""
    with tempfile.TemporaryDirectory() as folder:
        spec, knobs = spec_of(), EngineKnobs.model_validate(SYNC)
        model = build_model(spec.model, TOKENIZER.vocab_size, seed=0)
        start = {key: tensor.clone() for key, tensor in model.state_dict().items()}
        where = Path(folder)
        forced = lengths_of("dense")
        loop = Loop(
            LoopSpec(job=spec, knobs=knobs, seed=SEED, forced=forced, capture_batches=0, folder=where), model, start
        )
        loop.step()
        loop.close()
        num_events = len((where / "events.jsonl").read_text().splitlines())
        recorder, repeats = Recorder(roles=(Role.TRAINER,), file=open_events(where / "cost.jsonl")), 2000
        begun_s = time.perf_counter()
        for _ in range(repeats):
            with recorder.span(Role.TRAINER, "train"):
                pass
        recorder.take()
        event_s = (time.perf_counter() - begun_s) / repeats
        recorder.close()
        begun_s = time.perf_counter()
        for tensor in model.state_dict().values():
            tensor_hash(tensor)
        hash_s = time.perf_counter() - begun_s
    return {
        "events_per_step": num_events,
        "event_us": round(event_s * 1e6, 2),
        "hash_ms": round(hash_s * 1e3, 2),
        "events_frac": round(num_events * event_s / step_s, 5),
        "hashes_frac": round(2 * hash_s / step_s, 5),
    }


def times(slow_s: Sequence[float], fast_s: Sequence[float]) -> dict[str, float]:
    """Return how many times as fast, with its interval."""
    found = ratio_interval(slow_s, fast_s)
    return {
        "value": round(found.value, 3),
        "low": round(found.low, 3),
        "high": round(found.high, 3),
        "n": found.n,
    }


def main() -> int:
    """Measure, print and save; exit 1 if no arm that was steady meets the target."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--kept", type=int, default=6, help="steps kept of a block")
    parser.add_argument("--quick", action="store_true", help="two short rounds, nothing written")
    parser.add_argument("--arm", choices=tuple(ARMS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.arm is not None:
        return child(options.arm)
    rounds, kept = (2, 2) if options.quick else (options.rounds, options.kept)
    started_s, load = time.monotonic(), os.getloadavg()[0]
    with machine_lock(lambda pid, s: None):
        blocks = measure(rounds, kept)
        means = {name: [seconds(block) for block in found] for name, found in blocks.items()}
        books = bookkeeping(fmean(means["sync"]))
    ratios = {f"{name} over sync": times(means["sync"], means[name]) for name in list(ARMS)[1:]}
    steady = {name: steadiness(found) for name, found in blocks.items() if found[0][0].queue is not None}
    best = max(
        r["value"]
        for n, r in ratios.items()
        if steady.get(n.removesuffix(" over sync"), {"is_steady": True})["is_steady"]
    )
    result = {
        "what": "wall seconds per GRPO step of the 4 M dense model, forced lengths, two cores, blocks taking turns",
        "arms": {
            name: {
                "settings": ARMS[name],
                "blocks_s": [round(m, 4) for m in means[name]],
                "decoding": decoding([step for block in blocks[name] for step in block]),
                "exposed_wait_s": waits([step for block in blocks[name] for step in block]),
            }
            for name in ARMS
        },
        "ratios": ratios,
        "most_that_overlap_can_reach": times(means["sync"], [one_s / 2 for one_s in means[AT_ONCE]]),
        "steady": steady,
        "bookkeeping": books,
        "target": TARGET,
        "is_met": best >= TARGET,
        "versions": {"torch": torch.__version__, "python": platform.python_version()},
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, load {load:.2f} at the start",
        "wall_s": round(time.monotonic() - started_s),
        "date": time.strftime("%Y-%m-%d"),
    }
    print(json.dumps({name: arm["decoding"] for name, arm in result["arms"].items()}, indent=2))
    print(
        json.dumps(
            {
                k: result[k]
                for k in ("ratios", "most_that_overlap_can_reach", "steady", "bookkeeping", "is_met", "wall_s")
            },
            indent=2,
        )
    )
    if not options.quick:
        replace(HERE / "results" / "async.json", json.dumps(result, indent=2) + "\n")
    return 0 if best >= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
