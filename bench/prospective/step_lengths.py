"""Forced completion lengths by step: what a job's rollouts have to make, whoever runs it and whenever.

Surprise: they repeat after a few steps, as on the embedded engine: profile and trials run whole periods, so no luck of
the draw is in a forecast's error.
"""

import math
import random

from prospective.job import Job

PERIOD_STEPS = 4
"""Steps after which lengths repeat."""


def step_lengths(job: Job, step: int) -> list[int]:
    """Return the completion length of every row of one step, groups in order; at least 2 tokens."""
    rng, draw = random.Random(f"lengths {job.seed} {step % PERIOD_STEPS}"), job.lengths
    drawn = (rng.lognormvariate(math.log(draw.median), draw.sigma) for _ in range(num_rows(job)))
    return [min(draw.longest, max(2, round(length))) for length in drawn]


def num_rows(job: Job) -> int:
    """Return the rollouts of a step."""
    return job.prompts_per_step * job.group_size
