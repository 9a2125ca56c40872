"""What handing weights over costs: the trainer's part by the way it is done, the rollout's by its own settings too.

Surprise: between processes most of the rollout's part is no copying but the mismatch probe, which scores rows with the
rollout's own kernels: bf16 experts took 1.7 to 2.5 times as long over it as fp32 (docs/LAB.md, 2026-11-30).
"""

import itertools
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

import torch

from steptune.core.job import JobSpec
from steptune.core.knob import KnobValue
from steptune.core.profile import CostCurve, CurvePoint
from steptune.engine.knobs import EngineKnobs, RolloutDType
from steptune.engine.new_model import new_model
from steptune.engine.probe_rollout import NUM_REPEATS, PROBE_LENGTH, probe_prompts, probe_weights
from steptune.engine.probe_rows import PROBE_ROWS, probe_rows
from steptune.engine.produce import rollout_engine
from steptune.engine.rollout import RolloutEngine
from steptune.engine.threads import torch_threads
from steptune.engine.trainer import Trainer
from steptune.engine.types import RolloutBatch
from steptune.engine.weights import SharedWeights, hand_over
from steptune.envs.vocabulary import vocabulary_of


def probe_handover(
    job: JobSpec, thread_options: Sequence[int], dtype_options: Sequence[RolloutDType]
) -> list[CostCurve]:
    """Return the cost of each way to hand weights over; options are the rollout's."""
    model = new_model(job)
    knobs = EngineKnobs(compact_finished=True)
    engine = rollout_engine(job, knobs)
    trainer = Trainer(
        model, job.algorithm.model_copy(update={"kl_coef": 0.0, "num_updates": 1}), knobs, vocabulary_of(job).pad_id
    )
    rows = probed_rows(job, engine)
    shared = SharedWeights(model)
    with tempfile.TemporaryDirectory() as folder:
        inside = {m: timed(lambda m=m: hand_over(m, model, engine, 1, Path(folder))) for m in ("copy", "file")}
    probe_s = timed(lambda: trainer.logprobs(rows, knobs.micro_batch_tokens))
    write_s = timed(lambda: shared.write(model.state_dict(), 1))
    half_file_s = inside["file"] / 2
    loads = [
        curve
        for threads, dtype in itertools.product(thread_options, dtype_options)
        for curve in _load_curves(job, threads, dtype, shared, rows, half_file_s)
    ]
    return [
        once("handover", {"handover": "alias", "schedule": "sync"}, 0.0),
        once("handover", {"handover": "copy", "schedule": "sync"}, inside["copy"]),
        once("handover", {"handover": "file", "schedule": "sync"}, inside["file"]),
        once("handover", {"handover": "copy", "schedule": "one_step_off"}, write_s + probe_s),
        once("handover", {"handover": "file", "schedule": "one_step_off"}, half_file_s + probe_s),
        *loads,
    ]


def _load_curves(
    job: JobSpec, threads: int, dtype: RolloutDType, shared: SharedWeights, rows: RolloutBatch, half_file_s: float
) -> list[CostCurve]:
    """Return what a rollout of these settings pays to take new weights and answer the mismatch probe."""
    engine = rollout_engine(job, EngineKnobs(rollout_dtype=dtype))
    engine.load(probe_weights(job), 0)
    with torch_threads(threads):
        score_s = timed(lambda: score_rows(engine, rows, job))
        load_s = timed(lambda: engine.load(shared.read().state, 1))
    when: dict[str, KnobValue] = {"rollout_threads": threads, "rollout_dtype": dtype}
    return [
        once("load", {"handover": "copy", **when}, load_s + score_s),
        once("load", {"handover": "file", **when}, half_file_s + score_s),
    ]


def probed_rows(job: JobSpec, engine: RolloutEngine) -> RolloutBatch:
    """Return the rows that a hand-over's probe asks about."""
    engine.load(probe_weights(job), 0)
    prompts = probe_prompts(job, PROBE_ROWS)
    lengths_B = torch.full((PROBE_ROWS,), min(PROBE_LENGTH, job.algorithm.max_completion_len))
    batch, _ = engine.generate(
        prompts,
        max_completion_len=int(lengths_B[0]),
        temperature=job.algorithm.temperature,
        seed=0,
        forced_lengths_B=lengths_B,
    )
    return probe_rows(batch)


def score_rows(engine: RolloutEngine, rows: RolloutBatch, job: JobSpec) -> None:
    """Answer a hand-over's probe."""
    engine.score(rows.prompts, rows.completion_BT, rows.lengths_B, temperature=job.algorithm.temperature)


def timed(work: Callable[[], object]) -> float:
    """Return the median seconds of a call, after one that does not count."""
    work()
    seconds: list[float] = []
    for _ in range(NUM_REPEATS):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return median(seconds)


def once(name: str, when: dict[str, KnobValue], seconds: float) -> CostCurve:
    """Return the curve of what is paid once."""
    return CostCurve(name=name, when=when, unit="1", points=(CurvePoint(x=1, seconds=seconds),))
