"""Prices of a virtual cluster, measured on the real engine: one worker, one core, CPU seconds.

Decoding and prefill are real batches of the job's own prompts at several sizes; training is the trainer's own probe.
CPU seconds and not wall seconds: a neighbour on this machine must not become a property of an invented device.
"""

import time
from collections.abc import Sequence
from statistics import median

import torch

from steptune.core.job import JobSpec
from steptune.core.profile import CostCurve
from steptune.engine.events import Clock, Recorder
from steptune.engine.knobs import EngineKnobs
from steptune.engine.new_model import new_model
from steptune.engine.probe import probe_trainer
from steptune.engine.produce import prompt_batch, rollout_engine
from steptune.engine.rollout import RolloutEngine
from steptune.engine.threads import torch_threads
from steptune.engine.virtual.costs import MeasuredCosts
from steptune.envs.math.problems import train_problem
from steptune.envs.vocabulary import vocabulary_of

ROW_COUNTS = (1, 2, 4, 8, 16, 32, 64, 128)
"""Decode batches measured; beyond the last the line goes on."""

FORCED_LENGTH = 24
"""Tokens of every measured completion: the cache is about as full as in the middle of a short one."""

NUM_REPEATS = 3
"""Repetitions of which the median counts, after one that does not."""

TRAIN_BUDGET_S = 6.0
"""CPU seconds of the trainer's probe beyond its owed sizes."""


def measure_costs(
    job: JobSpec, knobs: EngineKnobs, *, row_counts: Sequence[int] = ROW_COUNTS, clock: Clock = time.process_time
) -> MeasuredCosts:
    """Return the prices of the job's model under ``knobs``, on one thread, packed layout."""
    with torch_threads(1):
        engine = rollout_engine(job, knobs.model_copy(update={"share_prefill": False, "compact_finished": True}))
        engine.load(new_model(job).state_dict(), 0)
        decode, prefill = list[tuple[float, float]](), list[tuple[float, float]]()
        for num_rows in row_counts:
            decode_s, tokens, prefill_s = _generate(engine, job, num_rows, clock)
            decode.append((float(num_rows), decode_s))
            prefill.append((float(tokens), prefill_s))
        curves = probe_trainer(job, (1,), (knobs.train_dtype,), budget_s=TRAIN_BUDGET_S, clock=clock)
    train = _curve(curves, "train")
    return MeasuredCosts(
        decode=decode,
        prefill=prefill,
        train=[(point.x, point.seconds) for point in train.points],
        optimizer=_curve(curves, "optimizer").points[0].seconds,
    )


def weight_bytes(job: JobSpec) -> int:
    """Return the bytes of one weight version in float32."""
    model = new_model(job)
    return sum(p.numel() * p.element_size() for p in model.parameters())


def _generate(engine: RolloutEngine, job: JobSpec, num_rows: int, clock: Clock) -> tuple[float, int, float]:
    """Return seconds per decode iteration, prompt positions, and seconds of their prefill."""
    texts = [train_problem(job.workload.seed, i, job.workload.levels).text for i in range(num_rows)]
    prompts = prompt_batch(texts, range(num_rows), 1, vocabulary_of(job))
    length = min(FORCED_LENGTH, job.algorithm.max_completion_len)
    traces = [
        engine.generate(
            prompts,
            max_completion_len=job.algorithm.max_completion_len,
            temperature=job.algorithm.temperature,
            seed=0,
            forced_lengths_B=torch.full((num_rows,), length),
            recorder=Recorder(clock=clock),
        )[1]
        for _ in range(1 + NUM_REPEATS)
    ][1:]
    decode_s = median(trace.timed_s[1] / trace.decode_iterations for trace in traces)
    return decode_s, traces[0].prefill_tokens, median(trace.timed_s[0] for trace in traces)


def _curve(curves: Sequence[CostCurve], name: str) -> CostCurve:
    wanted = {"layout": "packed", "recompute": False}
    return next(c for c in curves if c.name == name and all(c.when.get(k, v) == v for k, v in wanted.items()))
