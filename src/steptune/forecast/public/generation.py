"""Seconds of generation in closed form: full decode steps for the mean answer, then emptier ones for the tail.

    whole batch:   waves * mean * t(running)  +  (longest - mean) * t(running / TAIL_THINNING)
    steady state:  waves * mean * t(running)

where waves are a batch's rows on one engine over the rows that run at once; in a steady state those are of as many
batches as the lag allows, and waves may be below one.

Surprise: the second part does not shrink with more replicas, which is why doubling devices does not halve generation
and why letting samples live across updates gains most where answers are long and few.
"""

from functools import lru_cache

from steptune.footprint.layout import RolloutLayout
from steptune.footprint.roofline import Roofline, decode
from steptune.forecast.public.job import Job, tail_tokens
from steptune.forecast.public.parameters import Free
from steptune.shapes.cost import kv_bytes_per_token
from steptune.shapes.count import parameters

TAIL_THINNING = 8
"""Rows of the full batch over mean rows of its tail. Prior: a lognormal of spread 0.6."""

MOST_ROWS = 1024
"""Sequences an engine runs at once: verl's rollout default, and vLLM's on large cards."""

EAGER = 2.0
"""Launch cost without CUDA graphs over that with them. Prior: eager to graphs took a torchtitan step from 54 s to 24 s
(https://github.com/pytorch/torchtitan, side `fit`)."""

FP8_ROLLOUT = 0.83
"""Generation with fp8 weights over bf16, shrunk by half from the best case of FP8-RL (rollout 44 % faster)."""

SPLIT_ENGINES = 1.14
"""Step with prefill and decode split over that without, at small batches: verl's four pairs
(https://github.com/verl-project/verl/pull/6243, side `fit`) lie at 1.09 to 1.19."""

EXCHANGE_S = 12e-6
"""Latency of one all-reduce inside a node."""

NODE_DEVICES = 8
FAR = 4.0
"""Exchange across nodes over that inside one."""


def generation_s(job: Job, free: Free, num_devices: float, *, is_steady: bool) -> float:
    """Return seconds to generate a step's samples on ``num_devices``."""
    replicas = max(1.0, num_devices / job.rollout_tp)
    rows = max(1.0, job.samples / replicas)
    ahead = rows * job.batches_ahead if is_steady else rows
    running = min(ahead, MOST_ROWS, cache_rows(job))
    longest = tail_tokens(job)
    seconds = rows / running * job.mean_new * decode_s(job, free, running)
    if not is_steady:
        seconds += (longest - job.mean_new) * decode_s(job, free, max(1.0, running / TAIL_THINNING))
    return seconds * (FP8_ROLLOUT if job.fp8_rollout else 1.0) * (SPLIT_ENGINES if job.has_split_engines else 1.0)


def decode_s(job: Job, free: Free, rows: float) -> float:
    """Return seconds of one decode step of ``rows`` sequences."""
    ideal = _ideal(job, max(1, round(rows)))
    traffic = (ideal.weights_s + ideal.cache_s) / free.decode
    launch = free.launch_s * (EAGER if job.is_eager else 1.0)
    return max(traffic, ideal.compute_s / free.decode) + ideal.link_s + launch + _latency_s(job)


@lru_cache(maxsize=8192)
def _ideal(job: Job, rows: int) -> Roofline:
    layout = RolloutLayout(
        tensor=int(job.rollout_tp), expert=int(job.rollout_ep), share=job.engine_share, longest=int(job.longest)
    )
    return decode(job.shape, layout, job.device, rows=rows, context=job.prompt + job.mean_new / 2)


@lru_cache(maxsize=4096)
def cache_rows(job: Job) -> float:
    """Return sequences that fit in an engine's cache at their mean length, at least eight."""
    ways = job.rollout_tp
    held = (1.0 if job.fp8_rollout else 2.0) * parameters(job.shape).total
    room = ways * job.engine_share * job.device.memory_gib * 2**30 - held
    each = kv_bytes_per_token(job.shape) * (job.prompt + job.mean_new)
    return max(8.0, room / each) if each > 0 else MOST_ROWS


def _latency_s(job: Job) -> float:
    if job.rollout_tp <= 1:
        return 0.0
    far = FAR if job.rollout_tp > NODE_DEVICES and not job.device.name.startswith("GB") else 1.0
    return 2 * job.shape.num_layers * EXCHANGE_S * far
