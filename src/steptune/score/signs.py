"""Is the asynchronous row faster? Balanced accuracy over pairs, losers included.

Nearly all published pairs win, so plain accuracy rewards who always says yes. Balanced accuracy is the mean of two
shares: of the faster ones called faster, and of the others called not faster. Within `SIGN_BAND` of equal is *not
faster*: the noise of publishing is as large.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import final

from steptune.published.async_losers import AsyncLoser, LoserKind
from steptune.published.levers import difference
from steptune.published.public_run import PublicRun
from steptune.published.split import Side
from steptune.score.errors import forecast_log_ratio
from steptune.score.groups import Group, step_of
from steptune.score.model import StepModel, is_overlapped
from steptune.score.spread import Bounds, of_share

SIGN_BAND = math.log(1.02)
"""|ln ratio| below which a pair is a tie and so not faster: the same recipe twice is a median 2 % apart."""

SIGN_KINDS = (LoserKind.ASYNC, LoserKind.DISAGGREGATED)
"""Losers that answer the question; deeper queues and split engines answer others."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class AsyncPair:
    """A synchronous row and an overlapped or disaggregated one on as many devices."""

    name: str
    side: Side
    sync: PublicRun
    overlapped: PublicRun
    is_faster: bool
    """Whether the overlapped one was faster by more than the noise."""


SignCall = Callable[[AsyncPair], bool | None]
"""Says whether the overlapped row is faster; None refuses."""

TRIVIAL_SIGNS: tuple[tuple[str, SignCall], ...] = (
    ("always asynchronous", lambda pair: True),
    ("never asynchronous", lambda pair: False),
)
"""What every sign stands beside; by construction each has a balanced accuracy of one half."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Signs:
    """Calls by truth: ``Signs(faster_right=9, num_faster=11, others_right=6, num_others=12, num_refused=0)``."""

    faster_right: int
    num_faster: int
    others_right: int
    num_others: int
    num_refused: int
    """Refusals; each counts as wrong."""

    @property
    def balanced_frac(self) -> float | None:
        """Mean of the two shares called right; None where one side has no pair."""
        if not self.num_faster or not self.num_others:
            return None
        return (self.faster_right / self.num_faster + self.others_right / self.num_others) / 2

    @property
    def balanced_bounds_frac(self) -> Bounds | None:
        """80 % interval: the two shares vary on their own, so their half widths add as squares."""
        first = of_share(self.faster_right, self.num_faster)
        second = of_share(self.others_right, self.num_others)
        if first is None or second is None or self.balanced_frac is None:
            return None
        shares = (self.faster_right / self.num_faster, self.others_right / self.num_others)
        below = math.hypot(shares[0] - first[0], shares[1] - second[0]) / 2
        above = math.hypot(first[1] - shares[0], second[1] - shares[1]) / 2
        return self.balanced_frac - below, self.balanced_frac + above

    @property
    def plain_frac(self) -> float | None:
        """Share of all pairs called right."""
        num_pairs = self.num_faster + self.num_others
        return (self.faster_right + self.others_right) / num_pairs if num_pairs else None


def async_pairs(groups: Sequence[Group], losers: Sequence[AsyncLoser]) -> tuple[AsyncPair, ...]:
    """Return the pairs of the table and the scored losers that the table does not hold already."""
    of_table = [pair for group in groups for pair in _of_group(group)]
    known = {frozenset((pair.sync.id, pair.overlapped.id)) for pair in of_table}
    return (*of_table, *_of_losers(losers, known))


def score_signs(call: SignCall, pairs: Sequence[AsyncPair]) -> Signs:
    """Return how the calls compare with what was measured."""
    calls = [(pair.is_faster, call(pair)) for pair in pairs]
    return Signs(
        faster_right=sum(truth and called is True for truth, called in calls),
        num_faster=sum(truth for truth, _ in calls),
        others_right=sum(not truth and called is False for truth, called in calls),
        num_others=sum(not truth for truth, _ in calls),
        num_refused=sum(called is None for _, called in calls),
    )


def sign_of(model: StepModel) -> SignCall:
    """Return the call a step model's forecast ratio makes."""

    def call(pair: AsyncPair) -> bool | None:
        log_ratio = forecast_log_ratio(model, pair.sync, pair.overlapped)
        return None if log_ratio is None else log_ratio < -SIGN_BAND

    return call


def _of_group(group: Group) -> Iterable[AsyncPair]:
    for sync in (run for run in group.runs if not is_overlapped(run) and run.is_async is False):
        for other in (run for run in group.runs if is_overlapped(run)):
            moved = difference(sync, other)
            same_size = sync.n_gpus is not None and sync.n_gpus == other.n_gpus
            if same_size and not (moved.algorithm or moved.is_other_release or moved.is_other_system):
                log_ratio = math.log(step_of(other) / step_of(sync))
                yield AsyncPair(
                    name=f"{sync.id} / {other.id}",
                    side=group.side,
                    sync=sync,
                    overlapped=other,
                    is_faster=log_ratio < -SIGN_BAND,
                )


def _of_losers(losers: Sequence[AsyncLoser], known: set[frozenset[str]]) -> Iterable[AsyncPair]:
    for loser in losers:
        ids = frozenset((loser.run_ids or "").split())
        if loser.is_scored and loser.kind in SIGN_KINDS and ids not in known and loser.time_ratio is not None:
            sync, overlapped = _as_runs(loser)
            is_faster = math.log(loser.time_ratio) < -SIGN_BAND
            yield AsyncPair(name=loser.id, side=loser.side, sync=sync, overlapped=overlapped, is_faster=is_faster)


def _as_runs(loser: AsyncLoser) -> tuple[PublicRun, PublicRun]:
    """Return both sides as rows that state what the post states; most state little, and a model may refuse."""
    assert loser.source is not None, loser.id
    shared = {
        "source": loser.source,
        "framework": loser.framework,
        "model": loser.model,
        "gpu_type": loser.gpu_type,
        "row_kind": "full_step",
        "quality": loser.quality,
        **loser.stated,
    }
    sync = {
        "id": f"{loser.id}-sync",
        "n_gpus": loser.num_gpus_sync,
        "placement": "colocated",
        "gpus_train": loser.num_gpus_sync,
        "gpus_rollout": loser.num_gpus_sync,
        "async_lag": "0",
        "step_time_s": loser.sync_s,
    }
    overlapped = {
        "id": f"{loser.id}-overlapped",
        "n_gpus": loser.num_gpus_async,
        "placement": "disaggregated",
        "gpus_train": loser.num_train_gpus_async,
        "gpus_rollout": _rest(loser.num_gpus_async, loser.num_train_gpus_async),
        "async_lag": "1" if loser.kind is LoserKind.ASYNC else "0",
        "step_time_s": loser.async_s,
    }
    return PublicRun.model_validate({**shared, **sync}), PublicRun.model_validate({**shared, **overlapped})


def _rest(all_gpus: int | None, some: int | None) -> int | None:
    return None if all_gpus is None or some is None else all_gpus - some
