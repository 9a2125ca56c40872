"""Training one batch: the slowest rank's micro-batches, then what all ranks do together.

::

    rank 0  [mb|mb|mb|mb]....|  reduce | optimizer | offload
    rank 1  [mb|mb|mb|mb|mb]|           ...
                            ^ the slowest sets the pace; the others wait here

    micro-batch = overhead + max(compute, exposed collectives)
    compute     = (per token x positions + per token² x sum of squared rows) x recompute x expert imbalance
    pipeline    = the slowest rank x (stages - 1 + micro-batches) / micro-batches

Sources: the bubble is Narayanan et al. 2021, section 2.2 (https://arxiv.org/abs/2104.04473); a ring all-reduce sends
2 (n - 1) / n of the bytes (Patarasuk and Yuan 2009); recompute in full is one more forward, 4/3 of forward and
backward (Korthikanti et al. 2022, https://arxiv.org/abs/2205.05198). The surprise: equally many rows are not equal
work, and squares make equal tokens unequal too.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from steptune.core.errors import explain
from steptune.forecast.cluster.split import Balance, micro_batches, padded_micro_batches, rows_of, split_rows
from steptune.forecast.cluster.work import GroupShape
from steptune.forecast.curve import ForecastError

FULL_RECOMPUTE = 4 / 3
"""Compute of forward, forward again and backward over forward and backward. Source: arXiv 2205.05198. Prior."""

SELECTIVE_RECOMPUTE = 1.03
"""The same where only attention is computed again: 2 to 4 % (arXiv 2205.05198, table 4). Prior."""

RECOMPUTE = {"none": 1.0, "selective": SELECTIVE_RECOMPUTE, "full": FULL_RECOMPUTE}


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainKnobs:
    """One configuration of the training side: ``TrainKnobs(num_ranks=4, micro_batch_tokens=8192)``."""

    num_ranks: int
    """Data-parallel ranks."""
    devices_per_rank: int = 1
    """Tensor x context x pipeline: devices that share one rank's rows."""
    num_stages: int = 1
    """Pipeline stages among them."""
    micro_batch_tokens: int = 4096
    micro_batch_rows: int | None = None
    """Neighbouring rows of a micro-batch, each as wide as the widest of them, instead of a budget of positions."""
    balance: Balance = "rows"
    num_updates: int = 1
    """Optimizer updates per step: mini-batches, each with its own slowest rank."""
    recompute: str = "none"
    """none, selective or full."""
    offloads: bool = False
    """Optimizer state travels over the host link at every update."""

    def __post_init__(self) -> None:
        counts = (self.num_ranks, self.devices_per_rank, self.num_stages, self.micro_batch_tokens, self.num_updates)
        if min(counts) < 1 or self.recompute not in RECOMPUTE or self.devices_per_rank % self.num_stages:
            raise ForecastError(
                explain(
                    "a training side cannot have this",
                    got=str(self),
                    allowed=f"counts of 1 or more, stages that divide a rank's devices, recompute in {list(RECOMPUTE)}",
                    hint="write the split as ranks times devices per rank",
                )
            )

    @property
    def num_devices(self) -> int:
        """Devices held."""
        return self.num_ranks * self.devices_per_rank


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainCosts:
    """Prices of one healthy rank of the profiled devices per rank."""

    per_token_s: float
    per_token_squared_s: float = 0.0
    """Per squared position of a row: attention."""
    per_micro_batch_s: float = 0.0
    per_update_s: float = 0.0
    """Optimizer step, gradient clipping; every rank does it."""
    reduce_bytes: float = 0.0
    """Gradients that are reduced once per update."""
    reduce_bytes_per_s: float = math.inf
    reduce_fixed_s: float = 0.0
    """Of the reduction, whatever the ranks; nothing on one rank."""
    collective_per_token_s: float = 0.0
    """Gathers and all-to-alls of one micro-batch, per position; only what compute does not hide is paid."""
    expert_imbalance: float = 1.0
    """Busiest expert's tokens over the mean: 1 for a dense model."""
    offload_bytes: float = 0.0
    offload_bytes_per_s: float = math.inf
    carried_s: float = 0.0
    """Per step, whatever the batch and the ranks: reward, advantage, controller, what no span covers."""
    forwards_frac: float = 0.0
    """Log-prob passes beside training (reference, proximal), as a part of training's compute."""
    full_recompute: float | None = None
    """Forward, forward again and backward over forward and backward, where a job's own spans tell; a micro-batch's
    overhead is then known to repeat with the forward too. None is the prior, `FULL_RECOMPUTE`."""
    slowdown: tuple[float, ...] = ()
    """Seconds of each rank over a healthy one's."""
    scale: float = 1.0
    """Compute times this: calibration, or a shrunk efficiency."""

    def passes(self, recompute: str) -> float:
        """Return what a micro-batch computes, in forwards and backwards: with recompute and log-prob passes."""
        known = self.full_recompute if recompute == "full" else None
        return (RECOMPUTE[recompute] if known is None else known) + self.forwards_frac

    def factor(self, rank: int) -> float:
        """Return what a rank's compute is multiplied with."""
        return self.scale * (self.slowdown[rank] if rank < len(self.slowdown) else 1.0)

    def row_s(self, positions: int) -> float:
        """Return compute seconds of one row."""
        return self.per_token_s * positions + self.per_token_squared_s * positions * positions


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainTime:
    """Seconds of one step's training on its slowest rank, by term; they add up to `seconds`."""

    compute_s: float
    """Mean over ranks: what is work."""
    imbalance_s: float
    """Slowest rank minus mean, update by update."""
    bubble_s: float
    reduce_s: float
    optimizer_s: float
    offload_s: float
    carried_s: float
    num_micro_batches: int
    """Of the slowest ranks, all updates."""

    @property
    def seconds(self) -> float:
        """The whole."""
        return math.fsum(
            (
                self.compute_s,
                self.imbalance_s,
                self.bubble_s,
                self.reduce_s,
                self.optimizer_s,
                self.offload_s,
                self.carried_s,
            )
        )


def train_time(knobs: TrainKnobs, costs: TrainCosts, groups: Sequence[GroupShape]) -> TrainTime:
    """Return the time of one step's batch."""
    rows = rows_of(groups)
    edges = [len(rows) * u // knobs.num_updates for u in range(knobs.num_updates + 1)]
    updates = [_update(knobs, costs, rows[a:b]) for a, b in itertools.pairwise(edges)]
    reduce_s = _reduce_s(knobs, costs)
    offload_s = costs.offload_bytes / costs.offload_bytes_per_s if knobs.offloads else 0.0
    return TrainTime(
        compute_s=math.fsum(mean for mean, _, _, _ in updates),
        imbalance_s=math.fsum(slowest - mean for mean, slowest, _, _ in updates),
        bubble_s=math.fsum(bubble for _, _, bubble, _ in updates),
        reduce_s=reduce_s * knobs.num_updates,
        optimizer_s=costs.per_update_s * knobs.num_updates,
        offload_s=offload_s * knobs.num_updates,
        carried_s=costs.carried_s,
        num_micro_batches=sum(count for _, _, _, count in updates),
    )


def fixed_s(knobs: TrainKnobs, costs: TrainCosts) -> float:
    """Return the seconds per step that no number of tokens changes: a lower bound needs them."""
    empty = train_time(knobs, costs, ())
    return empty.reduce_s + empty.optimizer_s + empty.offload_s + empty.carried_s


def _update(knobs: TrainKnobs, costs: TrainCosts, rows: Sequence[int]) -> tuple[float, float, float, int]:
    """Return mean and slowest rank's seconds, the pipeline's bubble, and the slowest's micro-batches."""
    weight = [costs.row_s(row) for row in rows]
    shares = split_rows(rows, knobs.num_ranks, knobs.balance, weight)
    ranks: list[tuple[float, int]] = []
    for rank, share in enumerate(shares):
        packed = _packed(knobs, share)
        seconds = math.fsum(_micro_s(knobs, costs, micro) for micro in packed) * costs.factor(rank)
        ranks.append((seconds, len(packed)))
    slowest, count = max(ranks)
    bubble = slowest * (knobs.num_stages - 1) / count if count else 0.0
    return math.fsum(s for s, _ in ranks) / len(ranks), slowest, bubble, count


def _packed(knobs: TrainKnobs, rows: Sequence[int]) -> list[list[int]]:
    if knobs.micro_batch_rows is None:
        return micro_batches(rows, knobs.micro_batch_tokens)
    return padded_micro_batches(rows, knobs.micro_batch_rows)


def _micro_s(knobs: TrainKnobs, costs: TrainCosts, rows: Sequence[int]) -> float:
    passes = costs.passes(knobs.recompute)
    compute = math.fsum(costs.row_s(row) for row in rows) * costs.expert_imbalance * passes
    overhead = costs.per_micro_batch_s * (passes if costs.full_recompute is not None else 1.0)
    return overhead + max(compute, costs.collective_per_token_s * sum(rows))


def _reduce_s(knobs: TrainKnobs, costs: TrainCosts) -> float:
    ranks = knobs.num_ranks
    if ranks == 1:
        return 0.0
    return costs.reduce_fixed_s + 2 * (ranks - 1) / ranks * costs.reduce_bytes / costs.reduce_bytes_per_s
