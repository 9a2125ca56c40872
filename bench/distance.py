"""How far from the machine? Training over the peak matmul rate, decoding over what the memory can deliver.

`python bench/distance.py [--quick]` writes `bench/results/distance.json` in about three minutes. Both ceilings are
measured in the same run, between the models' blocks: the best float32 matmul rate of several sizes, and the rate at
which a matrix-vector product streams as many bytes as the model's weights have (they may fit in a cache, and then the
cache is the ceiling). Surprise: for models this small neither ceiling binds in decoding, the per-operator overhead
does; the table shows that as a third number, `decode_operators_frac`: the operators of one iteration times the time of
one on a single number, over the iteration.
"""

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "vs_trl"))

from same_work import SHAPES, job, lengths_of  # noqa: E402

from steptune.core.job import JobSpec  # noqa: E402
from steptune.core.model import HybridModel, ModelSpec, MoEModel  # noqa: E402
from steptune.engine.events import Recorder  # noqa: E402
from steptune.engine.knobs import EngineKnobs  # noqa: E402
from steptune.engine.model import Transformer, build_model  # noqa: E402
from steptune.engine.produce import PAD, TOKENIZER, prompt_batch, rollout_engine  # noqa: E402
from steptune.engine.rollout import RolloutEngine  # noqa: E402
from steptune.engine.trainer import PreparedBatch, Trainer  # noqa: E402
from steptune.engine.types import RolloutBatch, ScoredBatch  # noqa: E402
from steptune.envs.math.problems import train_problem  # noqa: E402
from steptune.stats.intervals import mean_interval  # noqa: E402
from steptune.store.files import replace  # noqa: E402
from steptune.store.lock import machine_lock  # noqa: E402

KNOBS = EngineKnobs(share_prefill=True, compact_finished=True, layout="packed", micro_batch_tokens=4096)
MODELS: dict[str, ModelSpec] = {
    **SHAPES,
    "hybrid": HybridModel(
        num_layers=4, full_attention_every=4, d_model=256, num_heads=8, num_kv_heads=4, d_ff=1024, rotary_frac=0.25,
        linear_key_heads=4, linear_value_heads=8, linear_key_dim=32, linear_value_dim=32,
    ),
}  # fmt: skip
"""Those of the comparison with TRL, and Qwen3.5's shape in small."""
BATCHES = (1, 8, 64)
"""Rows decoded together."""
MATMUL_SIZES = (512, 1024, 1536)
BLOCK_S = 0.5
"""Seconds of repetitions per measurement."""


def rate(work: Callable[[], object], amount: float) -> float:
    """Return ``amount`` per second of one call, over repetitions of at least `BLOCK_S`."""
    work()
    count, start_s = 0, time.perf_counter()
    while (took_s := time.perf_counter() - start_s) < BLOCK_S or not count:
        work()
        count += 1
    return amount * count / took_s if took_s > 0 else 0.0


def peak_flops() -> float:
    """Return the best float32 matmul rate in FLOP/s."""
    best = 0.0
    for n in MATMUL_SIZES:
        a, b = torch.randn(n, n), torch.randn(n, n)
        best = max(best, rate(lambda a=a, b=b: a @ b, 2 * n**3))
    return best


def stream_bytes_per_s(num_bytes: int) -> float:
    """Return the rate of a matrix-vector product over a matrix of ``num_bytes``."""
    rows = max(64, num_bytes // 4 // 1024)
    matrix, vector = torch.randn(rows, 1024), torch.randn(1024)
    return rate(lambda: matrix @ vector, matrix.numel() * 4)


class OperatorCount(TorchDispatchMode):
    """Counts the operators that reach the dispatcher."""

    num_operators = 0

    def __torch_dispatch__(
        self,
        func: Callable[..., object],
        types: Sequence[type],
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        """Count and pass on."""
        self.num_operators += 1
        return func(*args, **(kwargs or {}))


def operators_per_s() -> float:
    """Return how many operators on one number run in a second."""
    one = torch.zeros(1)
    return rate(lambda: one.add_(1), 1)


def scored(rollout: RolloutBatch) -> ScoredBatch:
    """Return a batch whose rewards do not matter: they do not change the cost."""
    ones_B = torch.ones(len(rollout.lengths_B))
    return ScoredBatch(
        rollout=rollout, raw_reward_B=ones_B, reward_B=ones_B, advantage_B=ones_B, train_mask_B=ones_B.bool()
    )


class Subject:
    """One model with a rollout engine and a trainer."""

    def __init__(self, shape: str) -> None:
        sized_as = shape if shape in SHAPES else "dense"
        self.spec: JobSpec = job(sized_as).model_copy(update={"model": MODELS[shape]})
        self.model: Transformer = build_model(self.spec.model, TOKENIZER.vocab_size, seed=0)
        self.engine: RolloutEngine = rollout_engine(self.spec, KNOBS)
        self.engine.load(self.model.state_dict(), version=0)
        self.trainer = Trainer(self.model, self.spec.algorithm, KNOBS, PAD)
        self.lengths = lengths_of(sized_as)
        self.batch = self.generate(64, None)
        self.train_flops = self._count_flops()
        self.num_operators = self.decode_operators()

    def generate(self, num_rows: int, num_tokens: int | None) -> RolloutBatch:
        """Generate the job's forced lengths, or ``num_tokens`` in every one of ``num_rows`` rows."""
        indices = list(range(max(1, num_rows // self.spec.algorithm.group_size)))
        texts = [train_problem(1, i, (1, 2, 3)).text for i in indices]
        prompts = prompt_batch(texts, indices, min(num_rows, self.spec.algorithm.group_size))
        table = self.lengths.completion[:num_rows] if num_tokens is None else [num_tokens] * num_rows
        limit = self.spec.algorithm.max_completion_len
        lengths_B: Tensor = torch.tensor(table)
        made, _ = self.engine.generate(
            prompts, max_completion_len=limit, temperature=1.0, seed=0, forced_lengths_B=lengths_B
        )
        return made

    def train(self) -> None:
        """Train on one batch: forward, backward, clipping, optimizer."""
        prepared = PreparedBatch(scored=scored(self.batch), old_logprobs_BT=None, ref_logprobs_BT=None)
        self.trainer.update(prepared, weights_version=0, recorder=Recorder())

    def _count_flops(self) -> float:
        self.trainer.configure(KNOBS.model_copy(update={"moe_dispatch": "sort"}))  # the counter knows no grouped_mm
        with FlopCounterMode(display=False) as counter:
            self.train()
        self.trainer.configure(KNOBS)
        return float(counter.get_total_flops())

    def decode_operators(self) -> float:
        """Operators of one decode iteration, counted."""
        with OperatorCount() as counter:
            self.generate(8, DECODE_TOKENS)
        return counter.num_operators / DECODE_TOKENS

    @property
    def weight_bytes(self) -> int:
        """Bytes of all weights: what one decode iteration of many rows must read."""
        return sum(p.numel() * p.element_size() for p in self.model.parameters())

    @property
    def active_bytes(self) -> int:
        """Bytes of the weights one token works with: the chosen experts only."""
        shape = self.spec.model
        if not isinstance(shape, MoEModel):
            return self.weight_bytes
        idle = shape.num_experts - shape.top_k
        return self.weight_bytes - idle * 3 * shape.d_model * shape.d_expert * shape.num_layers * 4

    @property
    def row_bytes(self) -> int:
        """Bytes that one row's history moves in an iteration: keys and values once, a recurrent state twice."""
        shape = self.spec.model
        num_full = sum(shape.has_full_attention(layer) for layer in range(shape.num_layers))
        moved = DECODE_TOKENS // 2 * num_full * 2 * shape.kv_width * 4
        if isinstance(shape, HybridModel):
            state = shape.state_numbers * 4
            moved += (shape.num_layers - num_full) * 2 * state
        return moved


DECODE_TOKENS = 64
"""Tokens per row of the decode measurement; the cache's own bytes are counted at half of it."""


def decode_floor_s(subject: Subject, num_rows: int, flops_per_s: float, bytes_per_s: float) -> float:
    """Return the least seconds of one decode iteration: bytes over bandwidth or FLOP over peak, the larger."""
    flops = 2 * num_rows * subject.active_bytes / 4
    read = min(subject.weight_bytes, subject.active_bytes * num_rows)
    return max((read + num_rows * subject.row_bytes) / bytes_per_s, flops / flops_per_s)


def one_round(subject: Subject, batches: tuple[int, ...]) -> dict[str, float]:
    """Return the fractions of both ceilings, ceilings measured just before."""
    flops_per_s, bytes_per_s = peak_flops(), stream_bytes_per_s(subject.weight_bytes)
    small_ops_per_s = operators_per_s()
    row = {"peak_gflops": flops_per_s / 1e9, "stream_gb_per_s": bytes_per_s / 1e9}
    row["train_frac"] = rate(subject.train, subject.train_flops) / flops_per_s
    for num_rows in batches:
        iterations_per_s = rate(lambda n=num_rows: subject.generate(n, DECODE_TOKENS), DECODE_TOKENS)
        row[f"decode_frac_b{num_rows}"] = iterations_per_s * decode_floor_s(subject, num_rows, flops_per_s, bytes_per_s)
        row[f"decode_operators_frac_b{num_rows}"] = iterations_per_s * subject.num_operators / small_ops_per_s
        row[f"decode_tokens_per_s_b{num_rows}"] = iterations_per_s * num_rows
    return row


def main() -> int:
    """Measure every model in turns, print and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two rounds, nothing written")
    parser.add_argument("--large", action="store_true", help="SmolLM2-135M's shape too: about ten minutes more")
    options = parser.parse_args()
    num_rounds = 2 if options.quick else 5
    torch.set_num_threads(os.cpu_count() or 1)
    load = os.getloadavg()[0]
    subjects = {shape: Subject(shape) for shape in MODELS if shape != "smollm2" or options.large}
    rows: dict[str, list[dict[str, float]]] = {shape: [] for shape in subjects}
    with machine_lock(lambda pid, s: None):
        for _ in range(num_rounds):
            for shape, subject in subjects.items():
                rows[shape].append(one_round(subject, BATCHES))
    table = {
        shape: {key: str_interval([row[key] for row in measured]) for key in measured[0]}
        for shape, measured in rows.items()
    }
    result = {
        "what": "achieved / measured ceiling; training counts the FLOP of forward and backward, float32",
        "models": table,
        "threads": torch.get_num_threads(),
        "rounds": num_rounds,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, load {load:.2f} at the start",
        "torch": torch.__version__,
        "date": time.strftime("%Y-%m-%d"),
    }
    print(json.dumps(result, indent=2))
    if not options.quick:
        replace(HERE / "results" / "distance.json", json.dumps(result, indent=2) + "\n")
    return 0


def str_interval(values: list[float]) -> dict[str, float]:
    """Return median, and the 95 % interval of the mean."""
    interval = mean_interval(values)
    return {
        "median": round(statistics.median(values), 4),
        "low": round(interval.low, 4),
        "high": round(interval.high, 4),
    }


if __name__ == "__main__":
    sys.exit(main())
