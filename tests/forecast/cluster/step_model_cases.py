"""Small work and prices for the step model."""

import random

from steptune.forecast.cluster.decode import DecodeCurve
from steptune.forecast.cluster.parameters import StepParameters
from steptune.forecast.cluster.queue import QueueKnobs
from steptune.forecast.cluster.rollout_knobs import RolloutCosts, RolloutKnobs
from steptune.forecast.cluster.sides import Cluster, Sides
from steptune.forecast.cluster.sync import SyncCosts
from steptune.forecast.cluster.train_side import TrainCosts, TrainKnobs
from steptune.forecast.cluster.work import GroupShape, RowShape, Wait, Work

FLAT = RolloutCosts(decode=DecodeCurve(rows=(1,), seconds=(1.0,)))
"""A second per iteration, whatever the rows."""

PER_TOKEN = TrainCosts(per_token_s=0.01)


def group(*tokens: int, prompt: int = 0, waits: tuple[Wait, ...] = ()) -> GroupShape:
    """A group with these lengths."""
    rows = tuple(RowShape(tokens=n, waits=waits) for n in tokens)
    return GroupShape(prompt=prompt, rows=rows, predicted_tokens=float(sum(tokens)))


def work(*groups: GroupShape, num_steps: int = 1, limit: int = 1000) -> Work:
    """The same groups in every step."""
    return Work(steps=(groups,) * num_steps, max_completion=limit)


def drawn_work(seed: int, *, num_steps: int = 2, groups: int = 6, size: int = 4, median: float = 30) -> Work:
    """Lognormal lengths."""
    draw = random.Random(seed)
    steps = tuple(
        tuple(
            group(*(min(200, max(1, round(median * draw.lognormvariate(0, 0.8)))) for _ in range(size)), prompt=8)
            for _ in range(groups)
        )
        for _ in range(num_steps)
    )
    return Work(steps=steps, max_completion=200)


def sides(work: Work, *, sync_s: float = 0.5, acceptance: float = 1.0, max_rounds: int = 1) -> Sides:
    """Prices of some believable shape."""
    rollout = RolloutCosts(
        decode=DecodeCurve(rows=(1, 4, 16), seconds=(0.010, 0.012, 0.030)),
        prefill_base_s=0.002,
        prefill_per_token_s=1e-4,
    )
    train = TrainCosts(per_token_s=1e-3, per_micro_batch_s=0.01, per_update_s=0.05)
    return Sides(
        parameters=StepParameters(
            rollout=rollout,
            train=train,
            sync=SyncCosts(pause_s=sync_s),
            acceptance=acceptance,
            max_rounds=max_rounds,
        ),
        work=work,
    )


def cluster(replicas: int = 3, ranks: int = 2, queue: QueueKnobs | None = None, **rollout: int) -> Cluster:
    """A split."""
    return Cluster(
        rollout=RolloutKnobs(num_replicas=replicas, **rollout),
        train=TrainKnobs(num_ranks=ranks, balance="tokens", micro_batch_tokens=256),
        queue=queue or QueueKnobs(),
    )


def ahead(max_lag: int, *, first_done: bool = False) -> QueueKnobs:
    """An asynchronous queue."""
    return QueueKnobs(schedule="async", max_lag=max_lag, consume="first_done" if first_done else "in_order")
