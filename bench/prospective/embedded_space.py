"""The embedded engine's jobs: dense, experts, hybrid; synchronous, one step off, asynchronous, partial; quotas.

Small enough that a trial of three pairs of blocks takes about 12 s on two cores, launches included. Surprise: a knob
that means nothing under the others drawn (a lag without a queue) is put off by `companions`, not drawn again, so
that no part of the space is visited less often for being fussy.
"""

import random
from collections.abc import Mapping
from functools import cache
from math import ceil, log
from pathlib import Path

from prospective.job import Disturbance, Job, Moves
from prospective.space import Space
from steptune.adapters.embedded.framework import EmbeddedFramework
from steptune.core.job import AlgorithmSpec, CpuDevices, JobSpec, KnobsSpec, LimitsSpec, MathWorkload, SftSpec
from steptune.core.knob import KnobValue
from steptune.core.model import DenseModel, HybridModel, ModelSpec, MoEModel
from steptune.core.profile import SampledLengths

NUM_CORES = 2
"""Cores of every job: those of the machine."""

PERIOD_STEPS = 4
"""Steps after which forced lengths repeat: a block of as many steps does the same work wherever it begins."""

MODELS: dict[str, ModelSpec] = {
    "dense": DenseModel(num_layers=3, d_model=160, num_heads=5, num_kv_heads=5, d_ff=320),
    "moe": MoEModel(num_layers=2, d_model=128, num_heads=4, num_kv_heads=2, num_experts=8, top_k=2, d_expert=128),
    "hybrid": HybridModel(num_layers=4, d_model=96, num_heads=3, num_kv_heads=3, d_ff=192),
}
"""0.4 to 1 M parameters: a step of 32 rollouts takes 0.1 to 0.5 s."""

KNOBS: dict[str, tuple[KnobValue, ...]] = {
    "schedule": ("sync", "one_step_off", "async"),
    "max_lag": (1, 2),
    "inflight_update": (False, True),
    "partial_rollout": (None, None, 1.25, 1.5),
    "rollout_cores": (None, None, 0.5, 1.0, 1.5),
    "rollout_concurrency": (None, 8, 16),
    "share_prefill": (False, True),
    "compact_finished": (False, True),
    "rollout_dtype": ("fp32", "bf16"),
    "rollout_threads": (1, 2),
    "train_threads": (1, 2),
    "train_dtype": ("fp32", "bf16"),
    "layout": ("padded", "sorted", "packed", "shared_prefix"),
    "micro_batch_tokens": (256, 1024, 4096),
    "recompute": (False, True),
    "handover": ("copy", "alias", "file"),
    "correction": ("none",),
}
"""What a session may turn, number formats and staleness included; `moe_dispatch` is left out, as no price knows it."""

DISTURBANCES = (
    None,
    Disturbance(kind="straggler", seconds=0.06),
    None,
    Disturbance(kind="sync_pause", seconds=0.05),
    Disturbance(kind="tool_wait", seconds=0.08),
)
"""Go round with the jobs; 14 jobs have 5 of the first kind, and none twice with the same model in a row."""

DEFAULT_LAG = 1
"""Updates; where a queue is drawn without its bound."""


def job_spec(job: Job) -> JobSpec:
    """Return the job as the engine runs it. Every knob may move: what may not run is told by its conflicts."""
    return JobSpec(
        name=job.name,
        model=MODELS[job.model],
        workload=MathWorkload(levels=(1, 2), num_validation=8, seed=1),
        sft=SftSpec(num_steps=0),
        algorithm=AlgorithmSpec(
            prompts_per_step=job.prompts_per_step,
            group_size=job.group_size,
            max_completion_len=job.lengths.longest,
            seed=job.seed % 1000,
        ),
        devices=CpuDevices(num_cores=NUM_CORES),
        limits=LimitsSpec(max_staleness=2, allow_corrections=True, max_mismatch_k3=10.0),
        knobs=KnobsSpec(allow=tuple(KNOBS)),
    )


def forced_lengths(job: Job) -> SampledLengths:
    """Return the completion lengths of `PERIOD_STEPS` steps; prompts are the workload's, and nobody reads them here."""
    rng, draw = random.Random(f"lengths {job.seed}"), job.lengths
    rows = job.prompts_per_step * job.group_size
    drawn = (rng.lognormvariate(log(draw.median), draw.sigma) for _ in range(rows * PERIOD_STEPS))
    completion = tuple(min(draw.longest, max(1, round(length))) for length in drawn)
    return SampledLengths(prompt=(1,) * len(completion), completion=completion, rollouts_per_step=rows)


def companions(settings: Mapping[str, KnobValue]) -> Moves:
    """Return what the drawn knobs drag along."""
    is_partial = settings["partial_rollout"] is not None and settings["schedule"] == "sync"
    overlaps = settings["schedule"] != "sync"
    is_stream = settings["schedule"] == "async" or is_partial
    moves: Moves = {
        "partial_rollout": settings["partial_rollout"] if is_partial else None,
        "max_lag": (settings["max_lag"] or DEFAULT_LAG) if is_stream else None,
        "inflight_update": settings["inflight_update"] if settings["schedule"] == "async" else False,
        "correction": "tis" if overlaps or is_partial else "none",
        "rollout_cores": settings["rollout_cores"] if overlaps else None,
    }
    if is_stream:
        moves["compact_finished"] = True
    if settings["handover"] == "alias" and (overlaps or settings["rollout_dtype"] != "fp32"):
        moves["handover"] = "copy"
    share = moves["rollout_cores"]
    if isinstance(share, float):
        moves |= {"rollout_threads": ceil(share), "train_threads": ceil(NUM_CORES - share)}
    elif overlaps:
        moves |= {"rollout_threads": 1, "train_threads": 1}
    return moves


@cache
def _framework() -> EmbeddedFramework:
    return EmbeddedFramework(cache_dir=Path())


def problem(job: Job, settings: Mapping[str, KnobValue]) -> str | None:
    """Return the engine's first reason against ``settings``."""
    return next(iter(_framework().conflicts(job_spec(job), settings)), None)


SPACE = Space(
    engine="embedded",
    num_jobs=14,
    models=("dense", "moe", "hybrid"),
    prompts=(4, 6, 8),
    group_sizes=(4, 6),
    medians=(6.0, 10.0, 16.0),
    sigmas=(0.2, 0.5, 0.9),
    longest=(32,),
    knobs=KNOBS,
    disturbances=DISTURBANCES,
    problem=problem,
    companions=companions,
)
"""14 jobs, 70 trials."""
