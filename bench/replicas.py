"""Two rollout replicas of one thread against one of two threads: the same batches on the same two cores.

`python bench/replicas.py [--quick]` writes `bench/results/replicas.json` in under two minutes. Idle threads wait
as torch leaves them; with `--asleep` they sleep, which is hard on one process of two threads (`replicas_asleep.json`).
Arms take turns at the same batch; the first turn is dropped. A batch
is a hand-over (every replica reads the weights, compares their hashes and takes them over) and a rollout with forced
lengths. `told` is `least_tokens` with every row's length declared, which nobody has in training: what routing could
give at best. `1 x 1` says what the second core is worth to either way of using it. Weights are random: the work is the
same. Processor seconds are of all processes.
"""

import argparse
import json
import os
import platform
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "vs_trl"))

import same_work  # noqa: E402

from steptune import __version__  # noqa: E402
from steptune.adapters.embedded.idle import ASLEEP  # noqa: E402
from steptune.core.job import JobSpec  # noqa: E402
from steptune.engine.events import Recorder  # noqa: E402
from steptune.engine.knobs import EngineKnobs  # noqa: E402
from steptune.engine.new_model import new_model  # noqa: E402
from steptune.engine.produce import prompt_batch, rollout_engine  # noqa: E402
from steptune.engine.replicas.messages import Answer  # noqa: E402
from steptune.engine.replicas.replica_set import ReplicaSet  # noqa: E402
from steptune.engine.replicas.start import start_replicas  # noqa: E402
from steptune.engine.replicas.wire import ReplicaWire, start_process  # noqa: E402
from steptune.engine.types import PromptBatch  # noqa: E402
from steptune.engine.weights import SharedWeights  # noqa: E402
from steptune.engine.worker import WorkerProcess, worker_spec  # noqa: E402
from steptune.envs.vocabulary import vocabulary_of  # noqa: E402
from steptune.stats.ratio import block_means, ratio_interval  # noqa: E402
from steptune.store.files import replace  # noqa: E402
from steptune.store.job_file import load_job  # noqa: E402
from steptune.store.lock import machine_lock  # noqa: E402

TUNED = {"share_prefill": True, "compact_finished": True}

ARMS = {
    "1 x 2": (1, 2, "round_robin"),
    "2 x 1 round_robin": (2, 1, "round_robin"),
    "2 x 1 least_tokens": (2, 1, "least_tokens"),
    "2 x 1 told": (2, 1, "least_tokens"),
    "1 x 1": (1, 1, "round_robin"),
}
"""Replicas, threads of each, and routing."""

TOLD = "2 x 1 told"

NUM_TURNS, NUM_BATCHES = 8, 2
"""Turns that count, and batches of one arm in each."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Took:
    """One batch of one arm: ``Took(handover_s=0.01, rollout_s=0.8, cpu_s=1.6, iterations=112)``."""

    handover_s: float
    rollout_s: float
    cpu_s: float
    """Processor seconds of all processes in both."""
    iterations: int
    """Decode iterations, of all replicas together."""


Blocks = dict[str, list[list[Took]]]
"""Batches by arm and turn."""


class Arm:
    """Replicas that wait for work."""

    def __init__(self, job: JobSpec, name: str, folder: Path, stack: ExitStack) -> None:
        num, self.threads, routing = ARMS[name]
        settings = {**TUNED, "rollout_replicas": num, "rollout_threads": self.threads, "rollout_routing": routing}
        knobs = EngineKnobs.model_validate(settings)
        self.is_told, self.job, self.state = name == TOLD, job, new_model(job).state_dict()
        self.channel = SharedWeights(new_model(job))
        self.ends: list[WorkerProcess[Answer]] = start_replicas(
            worker_spec(job, knobs, 0, None, folder), self.channel, start_process
        )
        wires = [ReplicaWire(end) for end in self.ends]
        self.replicas = ReplicaSet(rollout_engine(job, knobs), wires, Recorder())
        stack.callback(self.replicas.close)
        self.version = 0

    def batch(self, prompts: PromptBatch, lengths_B: torch.Tensor) -> Took:
        """Hand weights over and make one batch."""
        torch.set_num_threads(self.threads)
        self.version += 1
        cpu_s, start_s = self._cpu_s(), time.perf_counter()
        if self.ends:
            self.channel.write(self.state, self.version)
        self.replicas.load(self.state, self.version)
        loaded_s = time.perf_counter()
        _, trace = self.replicas.generate(
            prompts,
            max_completion_len=self.job.algorithm.max_completion_len,
            temperature=1.0,
            seed=0,
            limits_B=lengths_B if self.is_told else None,
            forced_lengths_B=lengths_B,
        )
        return Took(
            handover_s=loaded_s - start_s,
            rollout_s=time.perf_counter() - loaded_s,
            cpu_s=self._cpu_s() - cpu_s,
            iterations=trace.decode_iterations,
        )

    def _cpu_s(self) -> float:
        return time.process_time() + sum(cpu_seconds(end.process.pid or 0) for end in self.ends)


def cpu_seconds(pid: int) -> float:
    """Return the processor seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def jobs() -> dict[str, tuple[JobSpec, int]]:
    """Return each model's job with the median completion length."""
    example = load_job(HERE.parent / "examples" / "math-dense.toml")
    large = same_work.job("dense")
    median_len = example.algorithm.max_completion_len // 2
    return {
        f"1 M, {example.algorithm.rollouts_per_step} rollouts": (example, median_len),
        f"4 M, {large.algorithm.rollouts_per_step} rollouts": (large, same_work.SIZES["dense"].median_len),
    }


def batches(job: JobSpec, median_len: int, number: int) -> dict[str, tuple[PromptBatch, torch.Tensor]]:
    """Return one batch's prompts with log-normal lengths, and with equal ones of the same mean."""
    algorithm, rows = job.algorithm, job.algorithm.rollouts_per_step
    draw, first = random.Random(number), number * algorithm.prompts_per_step
    texts = [problem.text for problem in same_work.problems(job, number + 1)[first:]]
    indices = range(first, first + algorithm.prompts_per_step)
    prompts = prompt_batch(texts, indices, algorithm.group_size, vocabulary_of(job))
    limit = algorithm.max_completion_len
    drawn = [min(limit, max(4, round(median_len * draw.lognormvariate(0, same_work.SPREAD)))) for _ in range(rows)]
    equal = [round(statistics.fmean(drawn))] * rows
    return {"log-normal": (prompts, torch.tensor(drawn)), "equal": (prompts, torch.tensor(equal))}


@contextmanager
def all_arms(job: JobSpec) -> Generator[dict[str, Arm]]:
    """Hold every arm's processes."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        yield {name: Arm(job, name, folder / name.replace(" ", "-"), stack) for name in ARMS}


def measure(job: JobSpec, median_len: int, num_turns: int, num_batches: int) -> dict[str, Blocks]:
    """Let every arm make every batch, in turn; the first turn only warms up."""
    found: dict[str, Blocks] = {kind: {arm: [] for arm in ARMS} for kind in ("log-normal", "equal")}
    with all_arms(job) as arms:
        for turn in range(num_turns + 1):
            work = [batches(job, median_len, (turn * num_batches + i) % 6) for i in range(num_batches)]
            for kind, blocks in found.items():
                for name, arm in arms.items():
                    took = [arm.batch(*batch[kind]) for batch in work]
                    if turn > 0:
                        blocks[name].append(took)
    return found


def table(blocks: Blocks) -> list[dict[str, object]]:
    """Return one row per arm, with how many times as fast it is as the first: above 1 is faster."""
    first = block_means([[one.handover_s + one.rollout_s for one in turn] for turn in blocks["1 x 2"]])
    rows: list[dict[str, object]] = []
    for arm, turns in blocks.items():
        took = [one for turn in turns for one in turn]
        means = {name: statistics.fmean(getattr(one, name) for one in took) for name in Took.__dataclass_fields__}
        row: dict[str, object] = {"replicas_x_threads": arm, **{name: round(x, 4) for name, x in means.items()}}
        own = block_means([[one.handover_s + one.rollout_s for one in turn] for turn in turns])
        if arm != "1 x 2":
            gain = ratio_interval(first, own)
            row |= {"times_as_fast": round(gain.value, 3), "low": round(gain.low, 3), "high": round(gain.high, 3)}
        rows.append(row | {"n": len(turns)})
    return rows


def main() -> int:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two turns of one batch, nothing written")
    parser.add_argument(
        "--asleep", action="store_true", help="idle threads sleep; else they spin, as torch leaves them"
    )
    options = parser.parse_args()
    is_quick = options.quick
    waiting: dict[str, str] = ASLEEP if options.asleep else {}
    if any(os.environ.get(name) != waiting.get(name) for name in ASLEEP):  # torch is loaded: start again
        kept = {name: value for name, value in os.environ.items() if name not in ASLEEP}
        os.execve(sys.executable, [sys.executable, *sys.argv], {**kept, **waiting})
    load, start_s = os.getloadavg()[0], time.monotonic()
    models: dict[str, object] = {}
    with machine_lock(lambda pid, s: print(f"waiting for process {pid}", file=sys.stderr) if s == 0 else None):
        for name, (job, median_len) in jobs().items():
            found = measure(job, median_len, *((2, 1) if is_quick else (NUM_TURNS, NUM_BATCHES)))
            models[name] = {kind: table(blocks) for kind, blocks in found.items()}
    result = {
        "what": "hand-over and rollout of a batch with one replica of two threads, two of one, one of one",
        "date": time.strftime("%Y-%m-%d"),
        "machine": {"processor": platform.processor() or platform.machine(), "cores": os.cpu_count(), "load": load},
        "versions": {"steptune": __version__, "python": platform.python_version(), "torch": torch.__version__},
        "idle_threads": "sleep" if options.asleep else "spin",
        "took_s": round(time.monotonic() - start_s),
        "models": models,
    }
    print(json.dumps(result, indent=2))
    if not is_quick:
        name = "replicas_asleep.json" if options.asleep else "replicas.json"
        replace(HERE / "results" / name, json.dumps(result, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
