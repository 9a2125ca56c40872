"""Seconds of training and of log-probability passes: FLOPs over what the devices reach, the slowest rank, fixed parts.

Surprise: the parts that do not shrink with devices (updates, micro-batches, the slowest of many ranks with few
sequences each) are why training on half of 128 devices took 0.99 times as long in verl's published run.
"""

import math
from functools import lru_cache

from steptune.forecast.public.job import Job, tail_tokens
from steptune.forecast.public.parameters import PRIOR, Free
from steptune.hardware.devices import TERA, Device
from steptune.shapes.cost import forward_flop_per_token, training_flop_per_token
from steptune.shapes.shape import Experts

RIDGE_ROWS = 300.0
"""FLOP per byte of an H100: where a device has less bandwidth for its peak, less of the peak is reached."""

LOOP_EXPERTS = 0.15
"""Efficiency of experts that train one after the other, over grouped products. EasyR1 prints 1.4 % of the peak for
Qwen3-VL-30B-A3B and 16 % for a dense 7B (side `fit`): 0.09 over dense, shrunk."""

SPLIT_COST = 0.06
"""Slowdown by every doubling of tensor or context parallelism inside a node. Prior."""

EXPERT_COST = 0.05
"""The same of expert parallelism. Prior."""

NODE_DEVICES = 8
FAR_COST = 0.15
"""The same of each doubling across nodes. Prior."""

FP8_TRAIN = 0.9
"""Training with fp8 products over bf16. Prior: a third of what the products alone would gain."""

OFFLOADED = 1.1
"""Training with states on the host over without. Prior; FSDP2's policy alone took 1.39 times as long in one trainer
(verl, side `fit`), most of it hidden where batches are long."""

USUAL_LAYERS = 28
MOST_IMBALANCE = 2.5
PADDING_POWER = 0.5
"""Padded over real tokens enters with this power: padding to the batch's longest, not to the limit. Prior."""

VERL_NAMES = ("verl", "easyr1")
"""Frameworks whose training timer contains moving states in and out."""


def train_s(job: Job, free: Free) -> float:
    """Return seconds of a step's training on the trainer's devices."""
    seconds = _work_s(job, free, train_flop(job)) * _imbalance(job, free) * _bubble(job)
    seconds *= (FP8_TRAIN if job.fp8_train else 1.0) * (OFFLOADED if job.offloads else 1.0)
    seconds += micro_batches(job) * _micro_s(job, free) + job.num_updates * free.update_s
    return seconds * _shared(job, free)


def logprob_s(job: Job, free: Free) -> float:
    """Return seconds of all log-probability passes."""
    one = _work_s(job, free, forward_flop(job)) / free.forward * _bubble(job)
    return job.num_passes * (one + micro_batches(job) * _micro_s(job, free) / 3)


@lru_cache(maxsize=4096)
def train_flop(job: Job) -> float:
    """Return FLOPs of a step's training."""
    return job.tokens * training_flop_per_token(job.shape, int(job.prompt + job.mean_new), recompute=job.recomputes)


@lru_cache(maxsize=4096)
def forward_flop(job: Job) -> float:
    """Return FLOPs of one pass over a step's samples."""
    return job.tokens * forward_flop_per_token(job.shape, (job.prompt + job.mean_new) / 2)


def reached_frac(device: Device, free: Free) -> float:
    """Return the part of the peak that training reaches: 0.38 on an H100, 0.67 on an H20 at the prior."""
    ridge = device.ridge_rows
    return free.train / (1 + (ridge if ridge is not None else RIDGE_ROWS) / RIDGE_ROWS)


def micro_batches(job: Job) -> float:
    """Return micro-batches of a step on one rank: at least one an update."""
    return max(job.num_updates, job.tokens / job.dp / job.micro_tokens)


def _work_s(job: Job, free: Free, flop: float) -> float:
    peak = job.device.bf16_peak_tflops
    assert peak is not None, job.device.name
    has_experts = any(isinstance(group.feed_forward, Experts) for group in job.shape.layers)
    reached = reached_frac(job.device, free) * (free.experts if has_experts else 1.0)
    reached *= LOOP_EXPERTS / PRIOR.experts if has_experts and job.has_loop_experts else 1.0
    padded = 1.0 if job.is_packed else (job.longest / job.mean_new) ** PADDING_POWER
    return flop * padded * _split_cost(job) / (job.num_train * peak * TERA * reached)


def _split_cost(job: Job) -> float:
    node = 72 if job.device.name.startswith("GB") else NODE_DEVICES
    cost = 1 + SPLIT_COST * (math.log2(job.tp) + math.log2(job.cp)) + EXPERT_COST * math.log2(max(1.0, job.ep))
    return cost + FAR_COST * math.log2(max(1.0, job.ep / node, job.tp / node))


def _imbalance(job: Job, free: Free) -> float:
    """Return the slowest rank over the mean: one answer of the tail among the sequences that a rank gets.

    Ranks are balanced by tokens over the mini-batches that arrive together, so what is left is the longest answer:
    nothing where all are alike, much where one is 20 times the mean and a rank has 16.
    """
    each = max(1.0, job.samples / job.num_updates * job.batches_at_once / job.dp)
    return min(MOST_IMBALANCE, 1 + free.spread * (tail_tokens(job) / job.mean_new - 1) / each)


def _bubble(job: Job) -> float:
    return 1 + (job.pp - 1) / max(1.0, micro_batches(job) / job.num_updates)


def _micro_s(job: Job, free: Free) -> float:
    return free.micro_s * job.shape.num_layers / USUAL_LAYERS


def _shared(job: Job, free: Free) -> float:
    if not job.is_shared:
        return 1.0
    return free.shared if job.framework.startswith(VERL_NAMES) else 1 + (free.shared - 1) / 2
