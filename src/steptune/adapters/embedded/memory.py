"""Bytes the embedded engine adds to a process that has only imported it: of all its processes, what they share once.

    sync          fixed + weights, Adam, the rollout's copy + cache
                  + the largest of: one decode step | gradients and one micro-batch | one decode step of an evaluation
    overlapped    the same, but decode step and micro-batch at once
                  + the worker's process, its copy of what it reads, and two slots of weights in shared memory
    two ranks     + the second one's process and its gradients
    N replicas    + N - 1 processes, each with a rollout's copy and what it reads; caches and decode steps of all,
                  and the slots of weights where the rollout is synchronous, too

Tensors were counted from the engine's own modules; `bench/memory_growth.py` compares with the peak of resident memory.
The surprise: the rollout keeps its cache for the next step, so it stands beside a training micro-batch.
"""

import math

from steptune.adapters.embedded.shape import shape_of_model
from steptune.core.job import JobSpec
from steptune.core.model import ExpertFields, HybridFields, ModelSpec
from steptune.engine.evaluation_rows import LOGITS_COPIES as DECODE_LOGITS_COPIES
from steptune.engine.evaluation_rows import evaluation_row_bytes, evaluation_rows
from steptune.engine.knobs import EngineKnobs
from steptune.engine.models.delta_rule import CHUNK
from steptune.shapes.cost import kv_bytes, state_bytes_per_sequence
from steptune.shapes.count import parameters

BYTES_FP32 = 4
"""Bytes of a float32."""

BYTES_BF16 = 2
"""Bytes of a bfloat16."""

FIXED_BYTES = 100e6
"""What the first step of any model adds: libraries and buffers torch sets up late (bench/memory_growth.py, `tiny`)."""

RANK_PROCESS_BYTES = 262e6
"""Peak resident memory of a second trainer rank of a model of a few thousand parameters: Python, torch and what a first
step adds (VmHWM, torch 2.13 for CPUs, 2026-11-30)."""

WORKER_PROCESS_BYTES = 262e6
"""Likewise of the rollout's process of an overlapped schedule (bench/memory_growth.py: `tiny_overlapped` is 263 MB more
than `tiny`, 2026-11-30)."""

WEIGHT_SLOTS = 2
"""Whole models in shared memory between trainer and rollout: one is read while the other is written
(`engine.weights.SharedWeights`)."""

RANK_GRADIENTS = 2
"""Copies of the gradient that a further rank adds: its own, and the one in shared memory that rank 0 reads."""

COPIES_TRAINED = 3
"""Weights and Adam's two moments. Gradients live from the first micro-batch to the optimizer's step."""

LOGITS_COPIES = 3
"""fp32 logits that stand at once in the backward pass of `head.token_logprobs`: the log-softmax, the gradient of the
chosen entries spread over all, and that of the logits."""

ACTIVATIONS_PER_LAYER = 16
"""Activations of width `d_model` that one layer keeps for its backward, feed-forward counted by its own width
besides (two norms, qkv, attention in and out, residuals; counted from `engine.model`)."""


ACTIVATIONS_OF_ATTENTION = 6
"""Part of them that is the attention's own: queries, keys and values before and after the rotation, and its output."""

PAIRWISE_MATRICES = 6
"""Matrices of a chunk's positions against each other that `delta_rule.scan` keeps: decay, keys by keys before and after
it and as the triangular system, queries by keys before and after it."""


def memory_bytes(
    job: JobSpec, knobs: EngineKnobs, *, micro_positions: int, completion_frac: float, extra_keys: int, longest: int
) -> float:
    """Return the peak over all moments.

    Args:
        job: model and algorithm.
        knobs: the configuration.
        micro_positions: positions of the largest micro-batch.
        completion_frac: part of them whose log-probs are computed.
        extra_keys: keys of a micro-batch beyond its positions: shared prompts read more than once.
        longest: prompt and completion at their limits.
    """
    train = _train_bytes(job.model, knobs, micro_positions, extra_keys, longest) + _logits_bytes(
        job.model, knobs, micro_positions * completion_frac
    )
    rows, num_tokens = _running_rows(job, knobs), shape_of_model(job.model).vocab_size
    once = FIXED_BYTES + _state_bytes(job, knobs) + _other_processes_bytes(job, knobs)
    decode = float(BYTES_FP32 * DECODE_LOGITS_COPIES * rows * num_tokens)
    train = knobs.train_ranks * train + BYTES_FP32 * _numbers(job)
    own = decode / knobs.rollout_replicas  # of the replica that takes turns with the trainer
    working = decode + train if knobs.schedule != "sync" else decode - own + max(own, train)
    return once + rows * _cache_bytes(job, knobs, longest) + max(working, _evaluation_bytes(job, longest))


def _numbers(job: JobSpec) -> int:
    return parameters(shape_of_model(job.model)).total


def _evaluation_bytes(job: JobSpec, longest: int) -> float:
    """Return the cache and logits of held-out rows; the rollout's own cache stands beside them."""
    model, num_tokens = job.model, shape_of_model(job.model).vocab_size
    num_problems = job.workload.num_validation
    rows = evaluation_rows(model, num_problems=num_problems, num_tokens=num_tokens, longest=longest)
    return float(rows * evaluation_row_bytes(model, num_tokens=num_tokens, longest=longest))


def _state_bytes(job: JobSpec, knobs: EngineKnobs) -> float:
    numbers = _numbers(job)
    rollout = {"alias": 0}.get(knobs.handover, _rollout_bytes(knobs))
    reference = BYTES_FP32 if job.algorithm.kl_coef > 0 else 0
    return float(numbers * (COPIES_TRAINED * BYTES_FP32 + rollout + reference))


def _other_processes_bytes(job: JobSpec, knobs: EngineKnobs) -> float:
    """Return what further processes are and hold beside the rollout's model, caches and decode steps.

    Trainer ranks share weights and optimizer; each further one is a process with gradients of its own. The rollout's
    process reads weights into memory of its own before its engine takes them over, from two shared slots or a file.
    So does every further replica, whose model comes on top.
    """
    numbers, whole = _numbers(job), BYTES_FP32 * _numbers(job)
    ranks = (knobs.train_ranks - 1) * (RANK_PROCESS_BYTES + RANK_GRADIENTS * whole)
    num_workers = knobs.rollout_replicas - (1 if knobs.schedule == "sync" else 0)
    slots = 0 if knobs.handover == "file" or not num_workers else WEIGHT_SLOTS
    copies = (knobs.rollout_replicas - 1) * numbers * _rollout_bytes(knobs)
    return ranks + num_workers * (WORKER_PROCESS_BYTES + whole) + slots * whole + copies


def _rollout_bytes(knobs: EngineKnobs) -> int:
    return BYTES_BF16 if knobs.rollout_dtype == "bf16" else BYTES_FP32


def _train_bytes(model: ModelSpec, knobs: EngineKnobs, positions: int, extra_keys: int, longest: int) -> float:
    widths = _widths(model, longest)
    kept = max(widths) if knobs.recompute else sum(widths)
    inputs = model.d_model * model.num_layers if knobs.recompute else 0
    keys = 2 * extra_keys * model.kv_width * (1 if knobs.recompute else model.num_layers)
    return BYTES_FP32 * (positions * (kept + inputs) + keys)


def _widths(model: ModelSpec, longest: int) -> list[float]:
    """Return the activations one position keeps in each layer."""
    full = ACTIVATIONS_PER_LAYER * model.d_model + _ffn_activations(model)
    linear = full - ACTIVATIONS_OF_ATTENTION * model.d_model
    if isinstance(model, HybridFields):
        linear += _delta_activations(model, longest)
    return [full if model.has_full_attention(layer) else linear for layer in range(model.num_layers)]


def _delta_activations(model: HybridFields, longest: int) -> float:
    """Return what the gated delta rule keeps of one position (counted from `delta_layer` and `delta_rule`).

    The convolution's terms and its activation, queries and keys repeated, padded, laid out and weighted, values
    likewise with norm and gate, and six matrices of a chunk's positions against each other. Rows are padded to whole
    chunks.
    """
    keys, values = model.linear_value_heads * model.linear_key_dim, model.linear_value_heads * model.linear_value_dim
    chunk = min(CHUNK, longest)
    padded = math.ceil(longest / chunk) * chunk / longest
    inside = 9 * keys + 4 * values + PAIRWISE_MATRICES * model.linear_value_heads * chunk
    return (model.conv_width + 1) * model.conv_channels + 3 * keys + 5 * values + padded * inside


def _logits_bytes(model: ModelSpec, knobs: EngineKnobs, positions: float) -> float:
    standing = positions if knobs.head_tile_tokens is None else min(positions, float(knobs.head_tile_tokens))
    return BYTES_FP32 * LOGITS_COPIES * standing * shape_of_model(model).vocab_size


def _running_rows(job: JobSpec, knobs: EngineKnobs) -> int:
    """Return the rows that decode at once, of all replicas together."""
    groups = math.ceil(job.algorithm.prompts_per_step / knobs.rollout_replicas)
    rows = math.ceil(groups * job.algorithm.group_size * (knobs.partial_rollout or 1))
    return knobs.rollout_replicas * min(knobs.rollout_concurrency or rows, rows)


def _cache_bytes(job: JobSpec, knobs: EngineKnobs, longest: int) -> float:
    shape = shape_of_model(job.model)
    each = _rollout_bytes(knobs)
    return float(kv_bytes(shape, longest, each) + state_bytes_per_sequence(shape))


def _ffn_activations(model: ModelSpec) -> int:
    """Return the activations one position's feed-forward keeps: three of its width, and a choice's way in and out."""
    if isinstance(model, ExpertFields):
        routed = model.top_k * (3 * model.d_expert + 2 * model.d_model)
        return routed + 3 * (model.d_shared_expert or 0) + 2 * model.num_experts
    return 3 * model.d_ff
