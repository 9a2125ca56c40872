"""Primitive costs of the rollout: decode and prefill curves.

Runs the real engine on the job's own prompts with every completion forced to one length, so that a decode
iteration always has the same number of rows. No candidate configuration is run.
"""

from collections.abc import Callable, Sequence
from statistics import median

import torch

from steptune.core.job import JobSpec
from steptune.core.knob import KnobValue
from steptune.core.profile import CostCurve, CurvePoint
from steptune.engine.knobs import EngineKnobs, RolloutDType
from steptune.engine.new_model import new_model
from steptune.engine.produce import prompt_batch, rollout_engine
from steptune.engine.rollout import RolloutEngine
from steptune.engine.types import PromptBatch, RolloutTrace
from steptune.envs.math.problems import train_problem
from steptune.envs.vocabulary import vocabulary_of

PROBE_LENGTH = 12
"""Forced completion length in tokens: about the mean of the example, so the cache is about as full."""

NUM_REPEATS = 5
"""Timed repetitions of which the median is taken, after one that is not timed."""

ENOUGH_S = 2.0
"""Seconds of timed repetitions after which no further one is begun: a model of 135 M parameters takes 1 to 3 each."""

ROW_FRACTIONS = (1 / 64, 1 / 16, 1 / 4, 1 / 2, 1.0)
"""Batch sizes probed, as parts of the rollouts per step, besides a single row."""


def probe_rollout(
    job: JobSpec, thread_options: Sequence[int], dtype_options: Sequence[RolloutDType]
) -> list[CostCurve]:
    """Return decode (per iteration, by rows) and prefill (by prompt positions) curves."""
    threads_before = torch.get_num_threads()
    curves: list[CostCurve] = []
    for threads in thread_options:
        torch.set_num_threads(threads)
        for dtype in dtype_options:
            curves += _curves(job, threads, dtype)
    torch.set_num_threads(threads_before)
    return curves


def _curves(job: JobSpec, threads: int, dtype: RolloutDType) -> list[CostCurve]:
    when: dict[str, KnobValue] = {"rollout_threads": threads, "rollout_dtype": dtype}
    engine = rollout_engine(job, EngineKnobs(rollout_dtype=dtype))
    engine.load(probe_weights(job), 0)
    decode: list[CurvePoint] = []
    prefill: list[CurvePoint] = []
    for rows in row_counts(job.algorithm.rollouts_per_step):
        prompts = probe_prompts(job, rows)
        traces = repeated(lambda p=prompts: _generate(engine, p, job))
        seconds = median(t.timed_s[1] / t.decode_iterations for t in traces)
        decode.append(CurvePoint(x=rows, seconds=seconds))
        prefill.append(CurvePoint(x=traces[0].prefill_tokens, seconds=median(t.timed_s[0] for t in traces)))
    return [
        CostCurve(name="decode", when=when, unit="rows", points=tuple(decode)),
        CostCurve(name="prefill", when=when, unit="tokens", points=tuple(prefill)),
    ]


def repeated(generate: Callable[[], RolloutTrace]) -> list[RolloutTrace]:
    """Return the traces of `NUM_REPEATS` calls, fewer of slow ones, after one that does not count."""
    generate()
    traces = [generate()]
    while len(traces) < NUM_REPEATS and sum(sum(t.timed_s) for t in traces) < ENOUGH_S:
        traces.append(generate())
    return traces


def row_counts(rollouts_per_step: int) -> list[int]:
    """Return the batch sizes to probe, in increasing order."""
    return sorted({1, *(max(1, round(f * rollouts_per_step)) for f in ROW_FRACTIONS)})


def probe_prompts(job: JobSpec, rows: int) -> PromptBatch:
    """Return so many prompts of the job's own problems, each in a group of its own."""
    workload = job.workload
    texts = [train_problem(workload.seed, i, workload.levels).text for i in range(rows)]
    return prompt_batch(texts, range(rows), 1, vocabulary_of(job))


def _generate(engine: RolloutEngine, prompts: PromptBatch, job: JobSpec) -> RolloutTrace:
    lengths_B = torch.full((prompts.num_rows,), min(PROBE_LENGTH, job.algorithm.max_completion_len))
    return engine.generate(
        prompts,
        max_completion_len=job.algorithm.max_completion_len,
        temperature=job.algorithm.temperature,
        seed=0,
        forced_lengths_B=lengths_B,
    )[1]


def probe_weights(job: JobSpec) -> dict[str, torch.Tensor]:
    """Return weights of the job's model, new ones."""
    return new_model(job).state_dict()
