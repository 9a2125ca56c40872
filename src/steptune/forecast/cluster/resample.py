"""What other profiles of the same job would have answered: lengths, pauses and updates are drawn again.

A profile of eight steps is one draw of prompts. Another one would have had other lengths, more or fewer pauses and
other updates, and would have led to another forecast; how far such forecasts lie apart is what the profile leaves
open. Groups are drawn whole, with replacement (Efron 1979): siblings are alike, so prompts and not rollouts are the
sample, and a prompt's difficulty stays one draw. Lengths end at their limit; waits for tools do not, and a step ends
with its longest one, which eight steps hardly show: every second wait is drawn from the lognormal that fits them all.

The surprise: a candidate is asked in the *same* other profiles as its baseline. Longer prompts lengthen both, and only
what they answer differently is left in the ratio. What a run itself draws is its own: lengths of its steps, and how
many pauses and long updates it happens to meet. So an answer is of a run of `JOINED_STEPS` or `NUM_STEPS` steps.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import final

from steptune.forecast.cluster.bound import joined_s, least_s
from steptune.forecast.cluster.parameters import StepParameters
from steptune.forecast.cluster.sides import Cluster, Sides
from steptune.forecast.cluster.step import NUM_STEPS, efficiency_sd, simulated
from steptune.forecast.cluster.work import GroupShape, Wait, Work

NUM_DRAWS = 16
"""Other profiles asked: a standard deviation is then known to 18 %."""

JOINED_STEPS = 24
"""Steps that a schedule without a queue is averaged over in each."""

FITTED_FRAC = 0.5
"""Part of the waits drawn from the fitted lognormal, the others are logged ones. Prior: neither is trusted alone."""

LEAST_WAITS = 8
"""Logged waits below which nothing is fitted."""

_TERMS = 6
"""Prices of three sides, efficiency, updates, stalls."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class OtherProfile:
    """One other draw: its groups, and how many deviations each price lies off the fitted one."""

    groups: tuple[GroupShape, ...]
    rollout_z: float
    train_z: float
    sync_z: float
    efficiency_z: float
    update_z: float
    stall_z: float
    seed: int
    """Order in which its groups come."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What the model says of one configuration in one other profile."""

    seconds: float
    rows_by_lag: tuple[dict[int, int], ...] = ()
    """Of each step that counts; empty without a queue."""


def other_profiles(work: Work, *, num: int = NUM_DRAWS, seed: int = 0) -> tuple[OtherProfile, ...]:
    """Draw other profiles of the job; deterministic by seed, each price's errors spread evenly over the draws."""
    draw, logged = random.Random(seed), work.logged_groups
    waits = _fitted([wait.seconds for group in logged for row in group.rows for wait in row.waits])
    even = [NormalDist().inv_cdf((i + 0.5) / num) for i in range(num)]
    zs = [draw.sample(even, num) for _ in range(_TERMS)]
    return tuple(
        OtherProfile(
            groups=tuple(_with_waits(group, waits, draw) for group in draw.choices(logged, k=len(logged))),
            rollout_z=zs[0][i],
            train_z=zs[1][i],
            sync_z=zs[2][i],
            efficiency_z=zs[3][i],
            update_z=zs[4][i],
            stall_z=zs[5][i],
            seed=draw.getrandbits(32),
        )
        for i in range(num)
    )


def _fitted(waits_s: Sequence[float]) -> NormalDist | None:
    """Return mean and deviation of the waits' logs; None where there are few, or all are alike."""
    logs = [math.log(s) for s in waits_s if s > 0]
    if len(logs) < LEAST_WAITS or min(logs) == max(logs):
        return None
    return NormalDist.from_samples(logs)


def _with_waits(group: GroupShape, fitted: NormalDist | None, draw: random.Random) -> GroupShape:
    if fitted is None or not any(row.waits for row in group.rows):
        return group

    def other(wait: Wait) -> Wait:
        is_fitted = draw.random() < FITTED_FRAC
        return replace(wait, seconds=draw.lognormvariate(fitted.mean, fitted.stdev)) if is_fitted else wait

    return replace(group, rows=tuple(replace(row, waits=tuple(map(other, row.waits))) for row in group.rows))


def answers(sides: Sides, others: Sequence[OtherProfile], cluster: Cluster) -> tuple[Answer, ...]:
    """Ask ``cluster`` in each of them."""
    return tuple(_answer(sides, other, cluster) for other in others)


def _answer(sides: Sides, other: OtherProfile, cluster: Cluster) -> Answer:
    size = sides.work.groups_per_step
    steps = tuple(tuple(other.groups[i : i + size]) for i in range(0, len(other.groups), size))
    work = replace(sides.work, steps=steps, num_logged_groups=0)
    own = Sides(parameters=_moved(sides, other, cluster), work=work)
    if cluster.queue.schedule != "async":
        cut = own.extended(JOINED_STEPS, seed=other.seed).steps[:JOINED_STEPS]
        return Answer(seconds=joined_s(Sides(parameters=own.parameters, work=replace(work, steps=cut)), cluster))
    run = simulated(own, cluster, seed=other.seed, num_steps=NUM_STEPS)
    return Answer(
        seconds=max(run.seconds, least_s(own, cluster)), rows_by_lag=tuple(step.rows_by_lag for step in run.steps)
    )


def _moved(sides: Sides, other: OtherProfile, cluster: Cluster) -> StepParameters:
    """Return the prices that the other profile would have led to."""
    own = sides.parameters
    train_log = other.train_z * own.train_log_sd + other.efficiency_z * efficiency_sd(sides, cluster)
    moved = own.scaled(
        rollout=math.exp(other.rollout_z * own.rollout_log_sd),
        train=math.exp(train_log),
        sync=math.exp(other.sync_z * own.sync_log_sd),
    )
    decode, train = moved.rollout.decode, moved.train
    stall_z, update_z = _with_own_run(sides, other, cluster)
    stall_s = decode.stall_s * _with_mean_one(stall_z, decode.stall_log_sd)
    update_s = train.per_update_s * _with_mean_one(update_z, own.update_log_sd)
    return replace(
        moved,
        rollout=replace(moved.rollout, decode=replace(decode, stall_s=stall_s)),
        train=replace(train, per_update_s=update_s),
    )


def _with_own_run(sides: Sides, other: OtherProfile, cluster: Cluster) -> tuple[float, float]:
    """Return how far stalls and updates of one run lie off: the profile's error, and the run's own of so many steps."""
    profiled = sides.work.num_logged_groups / sides.work.groups_per_step
    part = math.sqrt(profiled / (NUM_STEPS if cluster.queue.schedule == "async" else JOINED_STEPS))
    draw = random.Random(f"{other.seed} {cluster}")  # baseline and candidate are two runs
    return other.stall_z + part * draw.gauss(0, 1), other.update_z + part * draw.gauss(0, 1)


def _with_mean_one(z: float, log_sd: float) -> float:
    return math.exp(z * log_sd - log_sd * log_sd / 2)
