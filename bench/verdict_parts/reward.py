"""Sessions whose candidates are truly fast and truly lose reward: how often does such a change leave the tool?

The tuner's `check_reward` judges paired held-out accuracies, `decide` what follows. A reward test that FAILS bans its
change and the session tests the next candidate, which loses as much; anything else ends the session.
"""

import random

from steptune.core.change import Change, Move
from steptune.core.decision import Outcome
from steptune.core.estimate import Estimate, Source
from steptune.core.job import GuardSpec, LimitsSpec
from steptune.core.knob import Effect, Restart
from steptune.core.profile import NoiseFloor
from steptune.core.verdict import Judgement, Verdict
from steptune.decide.final import decide
from steptune.decide.owed import OWED_AT_DECISION, REWARD
from steptune.guard.reward import check_reward
from verdict_parts.speed import COSTS

NUM_CANDIDATES = 3
"""Reward tests that one session pays for at the most."""

START, GAIN = 0.528, 0.289
"""Held-out accuracy before RL and what the baseline gains (bench/results/learns.json)."""

SPEEDUP = Estimate(value=1.5, low=1.45, high=1.55, unit="x", source=Source.MEASURED, n=4)
FLOOR = NoiseFloor(
    within_launch_cv=0.02, between_launch_frac=0.01, aa_ratio=SPEEDUP.model_copy(update={"value": 1.0}), num_steps=24
)
CHANGE = Change(moves=(Move(knob="dtype", old="fp32", new="int8"),), effect=Effect.PRECISION, restart=Restart.HOT)
OTHERS = tuple(
    Verdict(guard=guard, judgement=Judgement.PASS, limit="simulated", because="simulated")
    for guard in OWED_AT_DECISION[Effect.PRECISION]
    if guard != REWARD
)


def outcome(*, drop: float, pair_sd: float, seed: str) -> Outcome:
    """Return how a session ends whose candidates lose ``drop``; ``pair_sd`` is the spread of a paired difference."""
    rng = random.Random(seed)
    seeds, sd = GuardSpec().reward_seeds, pair_sd / 2**0.5
    ended = Outcome.NO_CHANGE
    for _ in range(NUM_CANDIDATES):
        baseline = [START + GAIN + rng.gauss(0, sd) for _ in range(seeds)]
        candidate = [START + GAIN - drop + rng.gauss(0, sd) for _ in range(seeds)]
        verdict = check_reward(
            start_S=[START] * seeds, baseline_S=baseline, candidate_S=candidate, margin=LimitsSpec().reward_margin
        )
        ended = decide(
            change=CHANGE,
            num_tried=1,
            baseline={},
            effect=CHANGE.effect,
            confirmed_speedup=SPEEDUP,
            step_speedup=None,
            over_best_practice=None,
            verdicts=(*OTHERS, verdict),
            noise=FLOOR,
            costs=COSTS,
            holds_for=None,
            tripwires=(),
        ).outcome
        if ended is not Outcome.REJECT:
            break
    return ended
