"""The work every arm is given: one model shape, one stream of prompts, one table of completion lengths.

Surprise: lengths are forced on both sides. A policy in training writes as much as it likes, so without that the
arms would be compared on different work.
"""

import random

from steptune.core.job import AlgorithmSpec, JobSpec, MathWorkload
from steptune.core.model import DenseModel, MoEModel
from steptune.core.profile import SampledLengths
from steptune.core.records import Record
from steptune.engine.produce import SEED_STRIDE, TOKENIZER
from steptune.envs.math.problems import Problem, train_problem

SEED = 1


class Size(Record):
    """How much one step is: ``Size(prompts=8, group_size=8, max_completion_len=112, median_len=32)``."""

    prompts: int
    group_size: int
    max_completion_len: int
    median_len: int
    """Of lognormal completion lengths, in tokens; about one row in fifty reaches the limit."""


LARGE = Size(prompts=8, group_size=8, max_completion_len=112, median_len=32)
"""64 rollouts a step, as in the measurements that the targets come from."""

SMALL = Size(prompts=4, group_size=4, max_completion_len=48, median_len=20)
"""16 rollouts: a step of 135 M parameters takes several seconds as it is."""

SHAPES = {
    "dense": DenseModel(num_layers=4, d_model=256, num_heads=8, num_kv_heads=4, d_ff=1024),
    "moe": MoEModel(num_layers=4, d_model=256, num_heads=8, num_kv_heads=4, num_experts=8, top_k=2, d_expert=512),
    "smollm2": DenseModel(
        num_layers=30, d_model=576, num_heads=9, num_kv_heads=3, d_ff=1536, norm_eps=1e-5, rope_theta=100_000.0,
        padded_vocab=49152,
    ),
}  # fmt: skip
"""4 M parameters dense (Llama's shape); 13 M with experts, of which 4 M work on a token (Qwen3-MoE's shape); and
SmolLM2-135M's shape with random weights, its whole vocabulary and our prompts: what it writes does not matter here."""

SIZES = {"dense": LARGE, "moe": LARGE, "smollm2": SMALL}

SPREAD = 0.6
"""Standard deviation of the log of a completion length."""

NUM_LENGTH_STEPS = 8
"""Steps until the table of lengths repeats."""


def job(shape: str) -> JobSpec:
    """Return the job of one model shape."""
    size = SIZES[shape]
    return JobSpec(
        name=f"vs-trl-{shape}",
        model=SHAPES[shape],
        workload=MathWorkload(seed=SEED),
        algorithm=AlgorithmSpec(
            prompts_per_step=size.prompts,
            group_size=size.group_size,
            max_completion_len=size.max_completion_len,
            lr=1e-5,
        ),
    )


def problems(spec: JobSpec, num_steps: int, seed: int = SEED) -> list[Problem]:
    """Return the problems of the first steps, in the order in which our producer draws them under a run's seed."""
    algorithm, workload = spec.algorithm, spec.workload
    firsts = [step * algorithm.max_sampling_rounds * algorithm.prompts_per_step for step in range(num_steps)]
    return [
        train_problem(workload.seed, seed * SEED_STRIDE + first + i, workload.levels)
        for first in firsts
        for i in range(algorithm.prompts_per_step)
    ]


def lengths_of(shape: str) -> SampledLengths:
    """Return the forced lengths of one model shape's work."""
    return forced_lengths(job(shape), SIZES[shape].median_len)


def forced_lengths(spec: JobSpec, median_len: int) -> SampledLengths:
    """Return completion lengths [steps x rollouts], the same for every arm."""
    draw, limit = random.Random(0), spec.algorithm.max_completion_len
    rows = spec.algorithm.rollouts_per_step
    lengths = [
        min(limit, max(4, round(median_len * draw.lognormvariate(0, SPREAD)))) for _ in range(NUM_LENGTH_STEPS * rows)
    ]
    prompts = [len(TOKENIZER.encode_prompt(p.text)) for p in problems(spec, NUM_LENGTH_STEPS)]
    per_row = [n for n in prompts for _ in range(spec.algorithm.group_size)]
    return SampledLengths(prompt=tuple(per_row), completion=tuple(lengths), rollouts_per_step=rows)
