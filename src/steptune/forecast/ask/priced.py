"""Facts, seconds and layout into the step model, and the asked configurations of it.

Surprise: a large batch is thinned. Of 128 groups of 16 rollouts a quarter of the rows is simulated, and an iteration
doubles at a quarter of the rows: scales are calibrated, so what is left of the thinning is a slightly milder tail.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from steptune.core.errors import explain
from steptune.core.profile import SummaryLengths
from steptune.forecast.ask.layout import Layout
from steptune.forecast.ask.measured import Measured
from steptune.forecast.cluster.lengths import work_from_summary
from steptune.forecast.cluster.queue import QueueKnobs
from steptune.forecast.cluster.rollout_knobs import RolloutKnobs
from steptune.forecast.cluster.sides import Cluster, Sides
from steptune.forecast.cluster.step import ERROR_STEPS, step_seconds
from steptune.forecast.cluster.totals import parameters_from_totals
from steptune.forecast.cluster.train_side import TrainKnobs
from steptune.forecast.cluster.work import Work
from steptune.forecast.curve import ForecastError

MAX_ROWS = 128
"""Rollouts per step that are simulated: a queue of 60 steps then costs a fraction of a second."""

MIN_GROUPS_PER_REPLICA = 4
"""Groups per replica below which groups are not thinned: fewer would leave replicas without any."""

ROWS_PER_RANK = 4
"""Rollouts per training rank below which devices are taken together as one rank: a rank with one row is a device of
some larger rank in any real layout, and its imbalance would be an artefact."""

DRAWN_STEPS = 8
"""Steps drawn from the lengths that the log states."""

RATE_ROUNDS = 2
"""Times that an asynchronous run's generation is scaled: the first leaves a few percent."""

MOST_RATE_CHANGE = 2.0
"""Factor that one such round may have: where the trainer decides the step, generation cannot mend it."""

SEED = 0
"""Of every draw: the same question has the same answer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Priced:
    """The measured run, and the job that is asked about: the same prices, its own work."""

    base: Sides
    asked: Sides
    cluster: Cluster
    """The measured configuration."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Grain:
    """Sizes of one rank and one replica, and how much the batch is thinned: the same for all that is compared."""

    devices_per_rank: int
    devices_per_replica: int
    thin_groups: int
    thin_rows: int


def grain_of(
    layout: Layout, facts: Mapping[str, float], changed: Mapping[str, float], counts: tuple[int, ...]
) -> Grain:
    """Return the grain for a question in which a side may have any of ``counts`` devices."""
    prompts, size = (round(facts[name]) for name in ("prompts_per_step", "group_size"))
    most = max(layout.num_devices, *counts, 1)
    per_rank = 1
    whole = math.gcd(layout.train, *counts)
    while prompts * size * per_rank < ROWS_PER_RANK * most and whole % (2 * per_rank) == 0:
        per_rank *= 2
    other_prompts = round(changed.get("prompts_per_step", prompts))
    other_size = round(changed.get("group_size", size))
    replicas = max(layout.replicas, most * layout.replicas // layout.rollout)
    thin_rows = _thinning(math.gcd(size, other_size), size, prompts * size / MAX_ROWS)
    few = max(MIN_GROUPS_PER_REPLICA * replicas, 1)
    wanted = min(prompts * size / thin_rows / MAX_ROWS, prompts / few)
    return Grain(
        devices_per_rank=per_rank,
        devices_per_replica=layout.rollout // layout.replicas,
        thin_groups=_thinning(math.gcd(prompts, other_prompts), prompts, wanted),
        thin_rows=thin_rows,
    )


def priced(
    layout: Layout, measured: Measured, facts: Mapping[str, float], changed: Mapping[str, float], grain: Grain
) -> Priced:
    """Calibrate on the measured run and return it beside the asked work.

    Raises:
        ForecastError: the facts make no work, or the measured configuration cannot run.
    """
    work = _work(facts, grain)
    cluster = cluster_of(
        layout, grain, train=layout.train, rollout=layout.rollout, max_lag=layout.max_lag, shares=layout.is_colocated
    )
    doubling = facts["rows_to_double"] / (grain.thin_groups * grain.thin_rows)
    base = Sides(parameters=parameters_from_totals(work, cluster, measured.totals, rows_to_double=doubling), work=work)
    if layout.max_lag:
        base = _at_rate(base, cluster, measured.step.value)
    parameters = base.parameters
    if not changed:
        return Priced(base=base, asked=base, cluster=cluster)
    other = {**facts, **changed}
    factor = math.prod(other[name] / facts[name] for name in changed)
    reference = parameters.train_reference
    assert reference is not None, "totals come with the devices they were measured on"
    # twice the work on twice the devices is as much per device as was measured
    equal = replace(reference, num_devices=max(round(reference.num_devices * factor), 1))
    asked = Sides(parameters=replace(parameters, train_reference=equal), work=_work(other, grain))
    return Priced(base=base, asked=asked, cluster=cluster)


def _at_rate(sides: Sides, cluster: Cluster, step_s: float) -> Sides:
    """Scale generation until an asynchronous step takes what was measured, where generation decides it.

    Replicas that never run empty have no batch whose makespan their busy seconds could be.
    """
    for _ in range(RATE_ROUNDS):
        model_s = step_seconds(sides, cluster, num_steps=ERROR_STEPS)
        if not model_s > 0:
            break
        factor = min(max(step_s / model_s, 1 / MOST_RATE_CHANGE), MOST_RATE_CHANGE)
        sides = Sides(parameters=sides.parameters.scaled(rollout=factor), work=sides.work)
    return sides


def cluster_of(layout: Layout, grain: Grain, *, train: int, rollout: int, max_lag: int, shares: bool) -> Cluster:
    """Return a configuration of so many devices per side, otherwise like the measured one.

    An asynchronous trainer takes whichever groups are whole, as verl's does (its docs/advance/fully_async.md).

    Raises:
        ForecastError: they do not make whole ranks and replicas.
    """
    per_rank, per_replica = grain.devices_per_rank, grain.devices_per_replica
    if train < 1 or rollout < 1 or train % per_rank or rollout % per_replica:
        raise ForecastError(
            explain(
                "so many devices do not make whole ranks and replicas",
                got=f"{train} for training, {rollout} for the rollout",
                allowed=f"multiples of {per_rank} and {per_replica} devices",
                hint=f"the measured run has {layout.replicas} replicas on {layout.rollout} devices; "
                "`--given replicas=N` says otherwise",
            )
        )
    return Cluster(
        rollout=RolloutKnobs(num_replicas=rollout // per_replica, devices_per_replica=per_replica),
        train=TrainKnobs(num_ranks=train // per_rank, devices_per_rank=per_rank, balance="tokens"),
        queue=QueueKnobs(schedule="async", max_lag=max_lag, consume="first_done") if max_lag else QueueKnobs(),
        is_colocated=shares,
    )


def _work(facts: Mapping[str, float], grain: Grain) -> Work:
    return work_from_summary(
        SummaryLengths(
            prompt_mean=facts["prompt_mean"],
            completion_mean=facts["completion_mean"],
            completion_max=facts["completion_max"],
            clipped_frac=facts["clipped_frac"],
        ),
        groups_per_step=max(round(facts["prompts_per_step"] / grain.thin_groups), 1),
        group_size=max(round(facts["group_size"] / grain.thin_rows), 1),
        limit=None,
        num_steps=DRAWN_STEPS,
        seed=SEED,
    )


def _thinning(divisible: int, most: int, wanted: float) -> int:
    """Return the least divisor that thins by at least ``wanted``, or the largest there is."""
    if wanted <= 1:
        return 1
    divisors = [d for d in range(1, min(divisible, most) + 1) if divisible % d == 0]
    return next((d for d in divisors if d >= wanted), divisors[-1])
