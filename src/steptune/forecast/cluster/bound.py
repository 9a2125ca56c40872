"""The least a step can take, without simulating it: what lets a sweep skip nearly everything.

Where phases add (`sync`, `one_step_off`) the joined sides *are* the step. An asynchronous step can be no shorter than

    trainer    its training, and the pause for weights
    replicas   the tokens of a batch at the best throughput that so many rows can reach, prefill, and the pause
    chain      in order only: a batch is released max_lag + 1 updates before the end of its own, so in max_lag + 1
               steps there is time for its longest row alone, its training and a pause
    stay       at most a given number of groups is on its way, each from its release until it was trained: its own
               longest row alone, and the training (Little 1961: number = rate x stay)

The replicas' line uses the concave hull of rows / seconds: no spread of rows over replicas and time does better
(Jensen). The surprise: a *simulated* step may lie below a line by the groups it found ready when counting began; that
is a transient and not a rate, so the forecast is the larger of both and pruning by the bound loses nothing.
"""

import itertools
import math
from collections.abc import Sequence
from statistics import fmean

from steptune.forecast.cluster.acceptance import groups_made, round_distribution
from steptune.forecast.cluster.rollout_knobs import RolloutCosts, RolloutKnobs
from steptune.forecast.cluster.sides import Cluster, Sides
from steptune.forecast.cluster.split import rows_of
from steptune.forecast.cluster.train_side import RECOMPUTE, TrainCosts, TrainKnobs, fixed_s
from steptune.forecast.cluster.work import GroupShape, Work

EVERY_COUNT_TO = 256
"""Running rows up to which the hull looks at every number."""

GRID_SLACK = 1.002
"""What n / (a + b n) can exceed the chord between two counts 2^(1/8) apart by: at most 0.19 %, at a = b n."""


def joined_s(sides: Sides, cluster: Cluster) -> float:
    """Return the step of a schedule in which the sides' own times say it all, rounds of sampling included."""
    own = sides.parameters
    spans = [m.seconds for m in sides.makespans(cluster.rollout)]
    trains = [t.seconds for t in sides.trains(cluster.train, is_colocated=cluster.is_colocated)]
    chances = round_distribution(sides.work.groups_per_step, own.acceptance, own.max_rounds)
    steps = range(len(spans))
    total = 0.0
    for rounds, chance in enumerate(chances, start=1):
        if cluster.queue.schedule == "sync":
            total += chance * fmean(rounds * spans[k] + trains[k] for k in steps)
        else:
            total += chance * fmean(max(rounds * spans[k], trains[k - 1]) for k in steps)
    return total + sides.still_s(cluster)


def least_s(sides: Sides, cluster: Cluster) -> float:
    """Return a lower bound of the step, exact unless asynchronous."""
    if cluster.queue.schedule != "async":
        return joined_s(sides, cluster)
    return join_async(
        cluster,
        train_s=least_train_s(sides, cluster),
        rollout_s=least_rollout_s(sides, cluster.rollout, num_ahead=num_ahead(sides.work, cluster)),
        chain_s=chain_s(sides),
        stay_s=stay_s(sides),
        batches_ahead=batches_ahead(sides.work, cluster),
        still_s=sides.still_s(cluster),
    )


def join_async(
    cluster: Cluster,
    *,
    train_s: float,
    rollout_s: float,
    chain_s: float,
    stay_s: float,
    batches_ahead: float,
    still_s: float,
) -> float:
    """Return the largest of the four lines."""
    least = max(max(train_s, rollout_s) + still_s, (stay_s + train_s) / batches_ahead)
    if cluster.queue.consume == "in_order":
        return max(least, (chain_s + train_s + still_s) / (cluster.queue.max_lag + 1))
    return least


def least_train_s(sides: Sides, cluster: Cluster) -> float:
    """Return the trainer's least: its own batches in order; perfectly balanced ones where groups are taken as done."""
    if cluster.queue.consume == "in_order" and sides.parameters.acceptance == 1:
        return sides.train_s(cluster.train, is_colocated=cluster.is_colocated)
    costs = sides.train_costs(cluster.train, is_colocated=cluster.is_colocated)
    return balanced_s(cluster.train, costs, sides.work)


def balanced_s(knobs: TrainKnobs, costs: TrainCosts, work: Work) -> float:
    """Return training without imbalance or bubble, in the cheapest batch the job has."""
    factor = costs.scale * min((1.0, *costs.slowdown))
    passes = RECOMPUTE[knobs.recompute] + costs.forwards_frac
    least = math.inf
    for step in work.steps:
        rows = rows_of(step)
        compute = math.fsum(costs.row_s(row) for row in rows) * costs.expert_imbalance * passes
        overhead = costs.per_micro_batch_s * sum(rows) / knobs.micro_batch_tokens
        least = min(least, (compute + overhead) / knobs.num_ranks * factor)
    return least + fixed_s(knobs, costs)


def batches_ahead(work: Work, cluster: Cluster) -> float:
    """Return the most groups that are on their way at once, in batches."""
    bound, buffer = cluster.queue.max_lag + 1, cluster.queue.max_ahead_groups
    return bound if buffer is None else max(min(bound, buffer / work.groups_per_step), 1.0)


def num_ahead(work: Work, cluster: Cluster) -> int:
    """Return the most rows that are on their way at once."""
    groups = round(batches_ahead(work, cluster) * work.groups_per_step)
    return groups * max(len(group.rows) for step in work.steps for group in step)


def least_rollout_s(sides: Sides, knobs: RolloutKnobs, *, num_ahead: int) -> float:
    """Return the replicas' least seconds per step."""
    work, costs = sides.work, sides.parameters.rollout
    made = groups_made(work.groups_per_step, sides.parameters.acceptance) / work.groups_per_step
    tokens = made * fmean(sum(group.num_tokens for group in step) for step in work.steps)
    prompts = made * fmean(sum(group.prompt for group in step) for step in work.steps)
    factor = min(costs.factor(i) for i in range(knobs.num_replicas))
    rows = num_ahead / knobs.num_replicas
    rate = best_rate(costs, rows if knobs.max_rows is None else min(rows, knobs.max_rows))
    decode_s = tokens / rate / knobs.num_replicas if tokens else 0.0
    return (decode_s + costs.prefill_per_token_s * prompts / knobs.num_replicas) * factor


def best_rate(costs: RolloutCosts, rows: float) -> float:
    """Return the most tokens per second of one replica with ``rows`` running on average: the hull of n / t(n)."""
    most = max(math.ceil(rows), 1)
    counts = sorted({*range(1, min(most, EVERY_COUNT_TO) + 1), *_grid(most), most})
    points = [(0.0, 0.0), *((float(n), n / t) for n in counts if (t := costs.decode.base_s(n)) > 0)]
    if len(points) == 1:
        return math.inf
    return _on(_upper_hull(points), rows) * (GRID_SLACK if most > EVERY_COUNT_TO else 1.0)


def chain_s(sides: Sides) -> float:
    """Return the mean over batches of what the longest row takes alone."""
    return fmean(max(_alone_s(sides, group) for group in step) for step in sides.work.steps)


def stay_s(sides: Sides) -> float:
    """Return the mean over groups of what the longest row takes alone."""
    return fmean(_alone_s(sides, group) for step in sides.work.steps for group in step)


def _alone_s(sides: Sides, group: GroupShape) -> float:
    """Return the least seconds of a group: its longest row alone on the fastest replica, waits included."""
    costs = sides.parameters.rollout
    iteration_s = costs.decode.base_s(1) * costs.scale * min((1.0, *costs.slowdown))
    return max((r.tokens * iteration_s + sum(w.seconds for w in r.waits) for r in group.rows), default=0.0)


def _grid(most: int) -> list[int]:
    octaves = math.log2(max(most / EVERY_COUNT_TO, 1))
    return [round(EVERY_COUNT_TO * 2 ** (i / 8)) for i in range(int(8 * octaves) + 1)]


def _upper_hull(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the concave hull seen from above (Andrew's monotone chain)."""
    hull: list[tuple[float, float]] = []
    for x, y in points:
        while len(hull) > 1 and _turns_up(hull[-2], hull[-1], (x, y)):
            hull.pop()
        hull.append((x, y))
    return hull


def _turns_up(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> bool:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]) >= 0


def _on(hull: Sequence[tuple[float, float]], x: float) -> float:
    best = 0.0
    for (x0, y0), (x1, y1) in itertools.pairwise(hull):
        if x0 <= x <= x1:
            best = y0 + (y1 - y0) * (x - x0) / (x1 - x0)
    # a rate that falls with rows is still reachable by running fewer
    return max([best, *(y for left, y in hull if left <= x)])
