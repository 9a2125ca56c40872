"""Packed metadata built once, and a group's prompt computed once: what each is worth on a block and on a step.

`python bench/metadata.py [--quick]` writes `bench/results/metadata.json` in under four minutes on one core (`--quick`
prints a small table and writes nothing). Two tables. *attention*: five ways to attend over one micro-batch of
groups with common prompts (see `metadata_arms`), on one block and on a whole training step of a model of about
4 M parameters with 4 or 28 layers; metadata builds per forward counted exactly, times as ratios to `dense_per_layer`.
*shared_prefix*: a step with each prompt once against the packed step, beside the ratio of positions
G (P + R) / (P + G R); the target is at least 0.8 of it.

Arms take turns in one process on one thread, by CPU seconds of the process; the first turn is dropped. All arms
must agree on log-probs and gradient norm, or the script stops.
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

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from metadata_arms import LAYOUTS, Builds, attend_of, engine_attends_by  # noqa: E402
from steptune.core.job import AlgorithmSpec  # noqa: E402
from steptune.core.model import DenseModel  # noqa: E402
from steptune.engine.context import Context  # noqa: E402
from steptune.engine.events import Recorder  # noqa: E402
from steptune.engine.inputs import build_inputs, join_rows  # noqa: E402
from steptune.engine.knobs import EngineKnobs  # noqa: E402
from steptune.engine.model import Transformer, build_model, num_parameters  # noqa: E402
from steptune.engine.plan import plan_batch  # noqa: E402
from steptune.engine.probe_batch import Picked, batch_of  # noqa: E402
from steptune.engine.trainer import PreparedBatch, Trainer  # noqa: E402
from steptune.engine.types import ScoredBatch  # noqa: E402
from steptune.stats.ratio import ratio_interval  # noqa: E402
from steptune.store.files import replace  # noqa: E402
from steptune.store.lock import machine_lock  # noqa: E402

VOCAB = 64
WHOLE = 10**9
"""A token budget that keeps every batch in one micro-batch."""
GROUP_SIZE = 8
PROMPT_LEN, MEAN_COMPLETION_LEN = 16, 24
MODELS = {
    4: DenseModel(num_layers=4, d_model=256, num_heads=8, num_kv_heads=4, d_ff=1024),
    28: DenseModel(num_layers=28, d_model=96, num_heads=4, num_kv_heads=2, d_ff=384),
}
"""About 4 M parameters each."""
SPREADS = {"even": 0.0, "mixed": 0.5, "long_tail": 1.0}
"""Standard deviation of the logarithm of a completion's length."""
CELLS = (
    # layers, documents, spread
    (4, 8, "mixed"),
    (4, 8, "even"),
    (4, 32, "even"),
    (4, 32, "mixed"),
    (4, 32, "long_tail"),
    (28, 8, "mixed"),
    (28, 32, "mixed"),
)
SHARED_SHAPES = (
    # groups, group size, prompt, mean completion, spread
    (2, 8, 128, 32, "even"),
    (2, 8, 128, 32, "mixed"),
    (1, 8, 128, 128, "even"),
    (1, 8, 256, 64, "even"),
    (1, 16, 256, 64, "even"),
    (1, 16, 256, 64, "mixed"),
    (1, 4, 64, 256, "even"),
    (16, 8, 10, 12, "mixed"),
)
MIN_ACHIEVED = 0.8
TOLERANCE = 1e-4
"""Largest difference of log-probs and relative difference of gradient norms between arms, in float32."""


def rows_of(num_groups: int, group_size: int, prompt: int, mean: int, spread: str) -> Picked:
    """Return groups with one prompt length and log-normal completions of about ``mean`` tokens."""
    generator, sigma = torch.Generator().manual_seed(0), SPREADS[spread]
    noise_B = torch.randn(num_groups * group_size, generator=generator)
    length_B = (mean * (sigma * noise_B - sigma**2 / 2).exp()).round().clamp(1, 4 * mean).int().tolist()
    groups = [row // group_size for row in range(len(length_B))]
    return Picked(rows=[(prompt, length) for length in length_B], group_B=groups)


class Step:
    """A whole training step under one arm: plan, inputs, forward, loss, backward, clipping, AdamW."""

    def __init__(self, arm: str, model: Transformer, batch: ScoredBatch, group_size: int) -> None:
        self.arm, self.batch, self.builds = arm, batch, Builds()
        self.recorder = Recorder()
        knobs = EngineKnobs(layout=LAYOUTS[arm], micro_batch_tokens=WHOLE)
        algorithm = AlgorithmSpec(group_size=group_size, max_completion_len=4096, lr=1e-6)
        self.trainer = Trainer(model, algorithm, knobs, 0)
        with engine_attends_by(arm, self.builds):
            self.logprobs_BT = self.trainer.logprobs(batch.rollout, WHOLE)
        self.grad_norm, self.num_positions = 0.0, 0
        self.builds.count = 0

    def __call__(self) -> None:
        """Take the step."""
        prepared = PreparedBatch(scored=self.batch, old_logprobs_BT=None, ref_logprobs_BT=None)
        with engine_attends_by(self.arm, self.builds):
            stats = self.trainer.update(prepared, weights_version=0, recorder=self.recorder)
        self.grad_norm, self.num_positions = stats.grad_norm, stats.padded_tokens


class Block:
    """Forward and backward of one block, metadata built where the arm builds it."""

    def __init__(self, arm: str, spec: DenseModel, batch: ScoredBatch) -> None:
        rollout, self.builds = batch.rollout, Builds()
        plan = plan_batch(
            rollout.prompts.lengths_B.tolist(),
            rollout.lengths_B.tolist(),
            layout=LAYOUTS[arm],
            token_budget=WHOLE,
            max_completion_len=1,
            group_B=rollout.prompts.group_B.tolist(),
        )
        self.micro = plan.updates[0][0]
        self.model = build_model(spec.model_copy(update={"num_layers": 1}), VOCAB, seed=0)
        self.inputs = build_inputs(join_rows(rollout, 0), self.micro)
        attend = attend_of(arm, self.builds)(self.micro.runs, self.micro.prompt_of)
        self.context = Context(attend=attend)

    def __call__(self) -> None:
        """Run it once."""
        hidden_ND = self.model.hidden(self.inputs.tokens_N, self.inputs.positions_N, self.context)
        hidden_ND.square().mean().backward()


def timed(calls: dict[str, Callable[[], None]], num_turns: int) -> dict[str, list[float]]:
    """Return CPU seconds of each call, all taking turns; the first turn is dropped."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(num_turns + 1):
        for name, call in calls.items():
            start_s = time.process_time()
            call()
            seconds[name].append(time.process_time() - start_s)
    return {name: times[1:] for name, times in seconds.items()}


def faster(baseline_s: Sequence[float], arm_s: Sequence[float]) -> dict[str, float]:
    """Return how many times as fast the arm is, with its 95 % interval over paired turns."""
    found = ratio_interval(baseline_s, arm_s)
    return {"ratio": round(found.value, 3), "low": round(found.low, 3), "high": round(found.high, 3), "n": found.n}


def attention_rows(num_layers: int, num_docs: int, spread: str, num_turns: int) -> list[dict[str, object]]:
    """Return one row per arm: builds, milliseconds and ratios to the mask built in every layer."""
    spec = MODELS[num_layers]
    picked = rows_of(num_docs // GROUP_SIZE, GROUP_SIZE, PROMPT_LEN, MEAN_COMPLETION_LEN, spread)
    batch = batch_of(picked, VOCAB)
    steps = {arm: Step(arm, build_model(spec, VOCAB, seed=0), batch, GROUP_SIZE) for arm in LAYOUTS}
    blocks = {arm: Block(arm, spec, batch) for arm in LAYOUTS}
    step_s, block_s = timed(dict(steps), num_turns), timed(dict(blocks), num_turns)
    check_equal(list(steps.values()))
    return [
        {
            "num_layers": num_layers,
            "num_docs": num_docs,
            "spread": spread,
            "arm": arm,
            "num_positions": step.num_positions,
            "builds_per_forward": step.builds.count / (num_turns + 1),
            "step_ms": round(1e3 * statistics.median(step_s[arm]), 2),
            "step_vs_dense_per_layer": faster(step_s["dense_per_layer"], step_s[arm]),
            "block_ms": round(1e3 * statistics.median(block_s[arm]), 2),
            "block_vs_dense_per_layer": faster(block_s["dense_per_layer"], block_s[arm]),
        }
        for arm, step in steps.items()
    ]


def check_equal(steps: Sequence[Step]) -> None:
    """Stop if two arms do not compute the same thing."""
    first = steps[0]
    for step in steps[1:]:
        difference = float((step.logprobs_BT - first.logprobs_BT).abs().max())
        relative = abs(step.grad_norm / first.grad_norm - 1)
        if not (difference <= TOLERANCE and relative <= TOLERANCE):
            sys.exit(f"{step.arm} differs from {first.arm}: log-probs by {difference}, gradient norm by {relative}")


def shared_row(shape: tuple[int, int, int, int, str], num_turns: int) -> dict[str, object]:
    """Return a step with each prompt once against the packed step, and both against the ratio of positions."""
    num_groups, group_size, prompt, mean, spread = shape
    batch = batch_of(rows_of(num_groups, group_size, prompt, mean, spread), VOCAB)
    arms = ("packed", "shared_prefix")
    steps = {arm: Step(arm, build_model(MODELS[4], VOCAB, seed=0), batch, group_size) for arm in arms}
    seconds = timed(dict(steps), num_turns)
    check_equal(list(steps.values()))
    token_ratio = steps["packed"].num_positions / steps["shared_prefix"].num_positions
    gain = faster(seconds["packed"], seconds["shared_prefix"])
    return {
        "groups": num_groups,
        "group_size": group_size,
        "prompt": prompt,
        "mean_completion": mean,
        "spread": spread,
        "packed_ms": round(1e3 * statistics.median(seconds["packed"]), 2),
        "shared_prefix_ms": round(1e3 * statistics.median(seconds["shared_prefix"]), 2),
        "gain": gain,
        "token_ratio": round(token_ratio, 3),
        "achieved_frac": round(gain["ratio"] / token_ratio, 3),
        "is_met": gain["ratio"] >= MIN_ACHIEVED * token_ratio,
    }


def show(table: Sequence[dict[str, object]]) -> None:
    """Print a table of its own columns."""
    print(" | ".join(table[0]))
    for row in table:
        cells = (f"{v['ratio']} ({v['low']} to {v['high']})" if isinstance(v, dict) else str(v) for v in row.values())
        print(" | ".join(cells))


def measure(*, is_quick: bool) -> dict[str, object]:
    """Return both tables."""
    num_turns = 3 if is_quick else 7
    cells = CELLS[:1] if is_quick else CELLS
    attention = [row for cell in cells for row in attention_rows(*cell, num_turns)]
    show(attention)
    shared = [shared_row(shape, num_turns) for shape in (SHARED_SHAPES[-1:] if is_quick else SHARED_SHAPES)]
    show(shared)
    return {"attention": attention, "shared_prefix": shared}


def main() -> int:
    """Measure, print and, unless quick, save; exit 1 if the shared prefix misses its target."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one small case of each table, nothing written")
    is_quick = parser.parse_args().quick
    torch.set_num_threads(1)
    load, start_s = os.getloadavg()[0], time.monotonic()
    with machine_lock(lambda pid, s: print(f"waiting for process {pid}", file=sys.stderr) if s == 0 else None):
        tables = measure(is_quick=is_quick)
    result: dict[str, object] = {
        "date": time.strftime("%Y-%m-%d"),
        "machine": {"processor": platform.processor() or platform.machine(), "cores": os.cpu_count(), "load": load},
        "versions": {"torch": torch.__version__, "python": platform.python_version()},
        "threads": 1,
        "clock": "CPU seconds of the process",
        "num_parameters": {n: num_parameters(build_model(spec, VOCAB, seed=0)) for n, spec in MODELS.items()},
        "took_s": round(time.monotonic() - start_s),
        **tables,
    }
    if not is_quick:
        replace(HERE / "results" / "metadata.json", json.dumps(result, indent=2) + "\n")
    shared = tables["shared_prefix"]
    assert isinstance(shared, list)
    return 0 if all(row["is_met"] for row in shared) else 1


if __name__ == "__main__":
    sys.exit(main())
