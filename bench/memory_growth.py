"""Memory of the embedded engine: the forecast of what a job adds to a process that has only imported it.

`python bench/memory_growth.py [--quick | --only NAME...] [--kept FILE]` writes `bench/results/memory_growth.json`
(`--quick` runs four configurations, `--only` those named, and both write nothing). Each configuration is a process of
its own: it imports the engine, notes its peak of resident memory, evaluates, runs three steps at forced lengths (the
longest, for every row) and notes what the last step says of the peaks of all its processes. The *growth* is the
difference, so it holds the whole of a worker's process; the forecast is `PlannedWork.memory_bytes` of the same job,
lengths and knobs. Target: at most 15 % off on every configuration, over growths that span at least 4x. What else the
machine does is no matter, nor when a row is measured: with `--kept` a run that was stopped goes on.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from steptune.core.job import AlgorithmSpec, JobSpec, LimitsSpec, MathWorkload
from steptune.core.model import DenseModel, HybridModel, ModelSpec, MoEModel
from steptune.core.profile import SampledLengths
from steptune.engine.knobs import EngineKnobs
from steptune.engine.process import peak_memory_bytes
from steptune.store.codehash import code_hash
from steptune.tune.machine import cpu_name, torch_version

HERE = Path(__file__).resolve().parent

MAX_ERROR = 0.15
"""Largest distance of the forecast growth from the measured one, as a part of it (issue: "within 15 %")."""

MIN_SPAN = 4.0
"""Largest over smallest measured growth."""

PROMPT_TOKENS = 24
"""Tokens of a prompt at the most (the math workload's are shorter and are padded in none of the packed layouts)."""

NUM_STEPS = 3
"""An overlapped run has written both slots of the weights and read them then."""

FEW_PROBLEMS = 32
"""Held-out problems where an evaluation is not what a configuration is about."""

MALLOC = {"MALLOC_MMAP_THRESHOLD_": "131072", "MALLOC_TRIM_THRESHOLD_": "131072", "OMP_NUM_THREADS": "1"}
"""Freed tensors go back to the system, so that a peak is of what lives at once."""

SMALL = DenseModel(num_layers=6, d_model=256, num_heads=8, num_kv_heads=4, d_ff=768)
WIDE = DenseModel(num_layers=8, d_model=512, num_heads=8, num_kv_heads=4, d_ff=1536)
WORDY = DenseModel(num_layers=4, d_model=256, num_heads=8, num_kv_heads=4, d_ff=768, padded_vocab=16_384)
SPARSE = MoEModel(num_layers=4, d_model=256, num_heads=8, num_kv_heads=4, num_experts=16, top_k=2, d_expert=256)
HYBRID = HybridModel(num_layers=8, d_model=256, num_heads=8, num_kv_heads=4, d_ff=768)

TINY = DenseModel(num_layers=1, d_model=16, num_heads=2, num_kv_heads=1, d_ff=16)

OVERLAPPED = {"schedule": "one_step_off", "correction": "tis"}
STREAM = {"schedule": "async", "max_lag": 1, "correction": "tis", "compact_finished": True}
RANKS = {"train_ranks": 2}
REPLICAS = {"rollout_replicas": 2}


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """One configuration."""

    model: ModelSpec
    completion: int
    """Tokens of every completion."""
    knobs: Mapping[str, object] = field(default_factory=dict[str, object])
    """Away from the default."""
    num_validation: int = FEW_PROBLEMS

    @property
    def job(self) -> JobSpec:
        """32 rollouts a step."""
        algorithm = AlgorithmSpec(prompts_per_step=4, group_size=8, max_completion_len=self.completion)
        workload = MathWorkload(num_validation=self.num_validation)
        limits = LimitsSpec(max_staleness=1, allow_corrections=True)
        return JobSpec(name="memory", model=self.model, algorithm=algorithm, workload=workload, limits=limits)


CASES: dict[str, Case] = {
    "tiny": Case(model=TINY, completion=8),
    "tiny_overlapped": Case(model=TINY, completion=8, knobs=OVERLAPPED),
    "tiny_ranks": Case(model=TINY, completion=8, knobs=RANKS),
    "tiny_replicas": Case(model=TINY, completion=8, knobs=REPLICAS),
    "small": Case(model=SMALL, completion=64),
    "small_long": Case(model=SMALL, completion=192),
    "small_large_micro": Case(model=SMALL, completion=96, knobs={"micro_batch_tokens": 8192}),
    "small_recompute": Case(model=SMALL, completion=96, knobs={"micro_batch_tokens": 8192, "recompute": True}),
    "small_packed": Case(model=SMALL, completion=96, knobs={"layout": "packed", "micro_batch_tokens": 4096}),
    "small_alias": Case(model=SMALL, completion=96, knobs={"handover": "alias"}),
    "small_evaluated": Case(model=SMALL, completion=64, num_validation=512),
    "small_overlapped": Case(model=SMALL, completion=96, knobs=OVERLAPPED),
    "small_stream": Case(model=SMALL, completion=96, knobs=STREAM),
    "small_ranks": Case(model=SMALL, completion=96, knobs=RANKS),
    "small_replicas": Case(model=SMALL, completion=96, knobs=REPLICAS),
    "small_stream_replicas": Case(model=SMALL, completion=96, knobs={**STREAM, **REPLICAS}),
    "wide": Case(model=WIDE, completion=64),
    "wide_recompute": Case(model=WIDE, completion=96, knobs={"recompute": True, "micro_batch_tokens": 4096}),
    "wide_overlapped": Case(model=WIDE, completion=64, knobs=OVERLAPPED),
    "wide_overlapped_file": Case(model=WIDE, completion=64, knobs={**OVERLAPPED, "handover": "file"}),
    "wide_ranks": Case(model=WIDE, completion=64, knobs=RANKS),
    "wide_replicas": Case(model=WIDE, completion=64, knobs=REPLICAS),
    "wordy": Case(model=WORDY, completion=64),
    "wordy_tiles": Case(model=WORDY, completion=64, knobs={"head_tile_tokens": 256}),
    "wordy_evaluated": Case(model=WORDY, completion=64, num_validation=512),
    "sparse": Case(model=SPARSE, completion=64),
    "hybrid": Case(model=HYBRID, completion=64),
    "hybrid_overlapped": Case(model=HYBRID, completion=64, knobs=OVERLAPPED),
}

QUICK = ("small", "wordy", "hybrid", "small_overlapped")


def child(name: str) -> dict[str, float]:
    """Run one configuration in this process; return growth and forecast in bytes."""
    import torch

    from steptune.adapters.embedded.work import WorkCounter
    from steptune.engine.evaluate import evaluate
    from steptune.engine.loop import Loop, LoopSpec
    from steptune.engine.model import build_model
    from steptune.engine.produce import TOKENIZER

    torch.set_num_threads(1)
    case = CASES[name]
    job, completion = case.job, case.completion
    knobs = EngineKnobs.model_validate({"train_threads": 1, "rollout_threads": 1, **case.knobs})
    before = peak_memory_bytes()
    num_rows = NUM_STEPS * job.algorithm.rollouts_per_step
    forced = SampledLengths(
        prompt=(PROMPT_TOKENS,) * num_rows,
        completion=(completion,) * num_rows,
        rollouts_per_step=job.algorithm.rollouts_per_step,
    )
    with tempfile.TemporaryDirectory() as folder:
        model = build_model(job.model, TOKENIZER.vocab_size, 1)
        spec = LoopSpec(job=job, knobs=knobs, seed=1, forced=forced, capture_batches=0, folder=Path(folder))
        loop = Loop(spec, model, model.state_dict())
        try:
            evaluate(loop.model, job, step=0)
            after = [loop.step() for _ in range(NUM_STEPS)][-1].memory_peak_bytes
            lengths: SampledLengths = loop.lengths()
        finally:
            loop.close()
    assert before is not None
    assert after is not None
    planned = WorkCounter(job=job, lengths=lengths).planned(knobs)
    return {"growth_bytes": after - before, "forecast_bytes": planned.memory_bytes}


def measure(name: str) -> dict[str, object]:
    """Return one row, measured in a process of its own."""
    command = [sys.executable, __file__, "--child", name]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, **MALLOC})
    found = json.loads(done.stdout)
    growth, forecast = found["growth_bytes"], found["forecast_bytes"]
    return {
        "configuration": name,
        "growth_mb": round(growth / 1e6, 1),
        "forecast_mb": round(forecast / 1e6, 1),
        "error": round(forecast / growth - 1, 3),
    }


def measured(name: str, kept: Path | None) -> dict[str, object]:
    """Measure one row, or take it from ``kept`` if this very code has measured it; print and return it."""
    code = code_hash()
    lines = kept.read_text(encoding="utf-8").splitlines() if kept is not None and kept.exists() else []
    before = (json.loads(line) for line in lines)
    row = next((one["row"] for one in before if (one["code"], one["row"]["configuration"]) == (code, name)), None)
    if row is None:
        row = measure(name)
        if kept is not None:
            with kept.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"code": code, "row": row}) + "\n")
    print(" | ".join(str(value) for value in row.values()), flush=True)
    return row


def main() -> int:
    """Measure every configuration; exit 1 where the target is missed (a smoke test judges nothing)."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a smoke test: four configurations, nothing is written")
    parser.add_argument("--only", nargs="+", choices=CASES, help="these configurations; nothing is written")
    parser.add_argument("--kept", type=Path, help="rows that were measured are kept here, and not measured again")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(json.dumps(child(args.child)))
        return 0
    rows = [measured(name, args.kept) for name in args.only or (QUICK if args.quick else CASES)]
    growths = [float(str(row["growth_mb"])) for row in rows]
    worst = max(abs(float(str(row["error"]))) for row in rows)
    span = max(growths) / min(growths)
    is_met = worst <= MAX_ERROR and span >= MIN_SPAN
    result = {
        "what": "growth of resident memory over the post-import baseline, forecast against measured",
        "date": time.strftime("%Y-%m-%d"),
        "machine": {"cpu": cpu_name(), "cores": os.cpu_count(), "torch": torch_version()},
        "targets": {
            "within": MAX_ERROR,
            "worst": worst,
            "span_at_least": MIN_SPAN,
            "span": round(span, 2),
            "is_met": is_met,
        },
        "rows": rows,
    }
    print(json.dumps(result["targets"]))
    is_whole = not (args.quick or args.only)
    if is_whole:
        (HERE / "results" / "memory_growth.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    return 0 if is_met or not is_whole else 1


if __name__ == "__main__":
    sys.exit(main())
