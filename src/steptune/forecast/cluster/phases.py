"""Where a forecast step goes: seconds by role and phase, as a profile books them, so that the two can be compared."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from steptune.core.phase import Role
from steptune.forecast.cluster.acceptance import expected_rounds
from steptune.forecast.cluster.queue import QueueRun
from steptune.forecast.cluster.sides import Cluster, Sides
from steptune.forecast.cluster.train_side import TrainTime
from steptune.forecast.side import Key


@dataclass(frozen=True, kw_only=True, slots=True)
class Booked:
    """Busy seconds of a mean device of each role, and what became of the tokens."""

    phases: dict[Key, float]
    lag: dict[int, float]
    dropped_frac: float


def booked_joined(sides: Sides, cluster: Cluster) -> Booked:
    """Book a step of `sync` or `one_step_off` from its sides."""
    own, spans = sides.parameters, sides.makespans(cluster.rollout)
    rounds = expected_rounds(sides.work.groups_per_step, own.acceptance, own.max_rounds)
    sync_s = own.sync.seconds(cluster.rollout.num_replicas)
    switch_s = own.switch.seconds if cluster.is_colocated else 0.0
    phases = {
        (Role.ROLLOUT, "rollout/decode"): rounds * fmean(m.decode_s for m in spans),
        (Role.ROLLOUT, "rollout/prefill"): rounds * fmean(m.prefill_s for m in spans),
        (Role.ROLLOUT, "env_wait"): rounds * fmean(m.env_wait_s for m in spans),
        **_train(sides.trains(cluster.train, is_colocated=cluster.is_colocated)),
        **{(role, "weight_sync"): sync_s for role in (Role.ROLLOUT, Role.TRAINER)},
        **{(role, "mode_switch"): switch_s for role in (Role.ROLLOUT, Role.TRAINER)},
    }
    lag = 0 if cluster.queue.schedule == "sync" else 1
    return Booked(phases=phases, lag={lag: 1.0}, dropped_frac=1 - 1 / rounds)


def booked_queue(run: QueueRun) -> Booked:
    """Book an asynchronous step from its simulation."""
    per_device = len(run.spent) * len(run.steps)
    phases = {
        (Role.ROLLOUT, "rollout/decode"): math.fsum(s.decode for s in run.spent) / per_device,
        (Role.ROLLOUT, "rollout/prefill"): math.fsum(s.prefill for s in run.spent) / per_device,
        (Role.ROLLOUT, "env_wait"): math.fsum(s.env_wait for s in run.spent) / per_device,
        (Role.ROLLOUT, "weight_sync"): math.fsum(s.sync for s in run.spent) / per_device,
        **_train([step.train for step in run.steps]),
        (Role.TRAINER, "weight_sync"): run.sync_s,
    }
    return Booked(phases=phases, lag=lag_distribution(run), dropped_frac=run.tokens_dropped / max(run.tokens_made, 1))


def lag_distribution(run: QueueRun) -> dict[int, float]:
    """Return P(lag = k) over the rollouts trained in the steps that count."""
    rows: Counter[int] = Counter()
    for step in run.steps:
        rows.update(step.rows_by_lag)
    total = sum(rows.values())
    return {lag: count / total for lag, count in sorted(rows.items())}


def idle_by_role(phases: Mapping[Key, float], step_s: float) -> dict[Role, float]:
    """Return what is left of the step for each role."""
    roles = sorted({role for role, _ in phases})
    return {role: step_s - math.fsum(s for (r, _), s in phases.items() if r is role) for role in roles}


def _train(times: Sequence[TrainTime]) -> dict[Key, float]:
    """Book training's terms; waiting for the slowest rank is a phase of its own, as it has its own remedy."""
    terms = {
        "train/compute": fmean(t.compute_s for t in times),
        "train/imbalance": fmean(t.imbalance_s for t in times),
        "train/bubble": fmean(t.bubble_s for t in times),
        "train/reduce": fmean(t.reduce_s for t in times),
        "train/optimizer": fmean(t.optimizer_s for t in times),
        "train/offload": fmean(t.offload_s for t in times),
        "unattributed": fmean(t.carried_s for t in times),
    }
    return {(Role.TRAINER, phase): seconds for phase, seconds in terms.items()}
