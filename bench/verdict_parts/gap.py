"""Trials whose rollout drifts away from its trainer: k3 grows with every step, and the recorded noise lies on it.

Judged by the tuner's `check_mismatch` on the steps of a trial's first launch against the A/A arms, and by its
`check_gap_growth` on the runs of the reward test, which a change that can move the gap owes.
"""

import math
import random

from steptune.core.job import GuardSpec, LimitsSpec
from steptune.core.trial import Observation
from steptune.core.verdict import Judgement
from steptune.guard.gap_growth import check_gap_growth
from steptune.guard.mismatch import check_mismatch
from steptune.testing.fake_step import fake_gap
from steptune.trial.blocks import WARMUP_STEPS
from steptune.tune.gather import TRIAL_PLAN
from verdict_parts.machine import STEP

LIMIT = LimitsSpec().max_mismatch_k3

LEVEL = 0.02 * LIMIT
"""k3 at the first step: far inside the limit, which 40 steps of the target's growth (6.4 times) do not reach."""

GUARD = GuardSpec()


def is_caught(trace: list[list[float]], *, spread: float, growth: float, seed: str) -> bool:
    """Return whether a gap that grows by ``growth`` in 8 steps fails in a trial's first launch or in the reward test.

    ``spread`` is the standard deviation of log k3 from step to step, 0.1 for 10 %.
    """
    rng = random.Random(seed)
    baseline = [*_trial(trace, rng, spread, 0.0), *_trial(trace, rng, spread, 0.0)]
    in_trial = check_mismatch(_trial(trace, rng, spread, growth), baseline, max_mismatch_k3=LIMIT)
    if in_trial.judgement is Judgement.FAIL:
        return True
    arms = [
        [_k3s(trace, rng, spread, grown, range(GUARD.reward_steps)) for _ in range(GUARD.reward_seeds)]
        for grown in (growth, 0.0)
    ]
    trained = check_gap_growth(candidate_k3_SK=arms[0], baseline_k3_SK=arms[1], max_mismatch_k3=LIMIT)
    return trained.judgement is Judgement.FAIL


def _trial(trace: list[list[float]], rng: random.Random, spread: float, growth: float) -> list[Observation]:
    numbers = range(WARMUP_STEPS, WARMUP_STEPS + TRIAL_PLAN.max_pairs * TRIAL_PLAN.kept_steps)
    k3s = _k3s(trace, rng, spread, growth, numbers)
    return [
        STEP.model_copy(update={"step": i, "mismatch": fake_gap(k3, num_tokens=1000)})
        for i, k3 in zip(numbers, k3s, strict=True)
    ]


def _k3s(trace: list[list[float]], rng: random.Random, spread: float, growth: float, numbers: range) -> list[float]:
    piece = rng.choice(trace)
    start = rng.randrange(len(piece) - len(numbers) + 1)
    noise = piece[start : start + len(numbers)]
    return [LEVEL * (1 + growth) ** (i / 8) * math.exp(spread * r) for i, r in zip(numbers, noise, strict=True)]
