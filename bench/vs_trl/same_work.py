"""The work every arm is given: one model shape, one stream of prompts, one table of completion lengths.

Surprise: lengths are forced on both sides. A policy in training writes as much as it likes, so without that the
arms would be compared on different work.
"""

import random

from steptune.core.job import AlgorithmSpec, JobSpec, MathWorkload
from steptune.core.model import DenseModel, MoEModel
from steptune.core.profile import SampledLengths
from steptune.engine.produce import SEED_STRIDE, TOKENIZER
from steptune.envs.math.problems import Problem, train_problem

SEED = 1

PROMPTS, GROUP_SIZE, MAX_COMPLETION_LEN = 8, 8, 112
"""64 rollouts a step, as in the measurements that the targets come from."""

SHAPES = {
    "dense": DenseModel(num_layers=4, d_model=256, num_heads=8, num_kv_heads=4, d_ff=1024),
    "moe": MoEModel(num_layers=4, d_model=256, num_heads=8, num_kv_heads=4, num_experts=8, top_k=2, d_expert=512),
}
"""4 M parameters dense (Llama's shape); 13 M with experts, of which 4 M work on a token (Qwen3-MoE's shape)."""

MEDIAN_LEN, SPREAD = 32, 0.6
"""Lognormal completion lengths, in tokens: mean about 38, one row in fifty at the limit."""

NUM_LENGTH_STEPS = 8
"""Steps until the table of lengths repeats."""


def job(shape: str) -> JobSpec:
    """Return the job of one model shape."""
    return JobSpec(
        name=f"vs-trl-{shape}",
        model=SHAPES[shape],
        workload=MathWorkload(seed=SEED),
        algorithm=AlgorithmSpec(
            prompts_per_step=PROMPTS, group_size=GROUP_SIZE, max_completion_len=MAX_COMPLETION_LEN, lr=1e-5
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


def forced_lengths(spec: JobSpec) -> SampledLengths:
    """Return completion lengths [steps x rollouts], the same for every arm."""
    draw, limit = random.Random(0), spec.algorithm.max_completion_len
    rows = spec.algorithm.rollouts_per_step
    lengths = [
        min(limit, max(4, round(MEDIAN_LEN * draw.lognormvariate(0, SPREAD)))) for _ in range(NUM_LENGTH_STEPS * rows)
    ]
    prompts = [len(TOKENIZER.encode_prompt(p.text)) for p in problems(spec, NUM_LENGTH_STEPS)]
    per_row = [n for n in prompts for _ in range(spec.algorithm.group_size)]
    return SampledLengths(prompt=tuple(per_row), completion=tuple(lengths), rollouts_per_step=rows)
