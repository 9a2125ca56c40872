"""Asynchronous or disaggregated configurations that were not faster: the half of the sign test that papers leave out.

Nearly all published asynchronous pairs win, so a forecaster that always says *faster* looks good. These were collected,
and committed, before any score. Surprise: most of them are disaggregated *and* wait for each batch; the few with true
overlap are the hard ones.
"""

import json
from enum import StrEnum
from functools import cache

from steptune.core.records import Record
from steptune.published.split import Side, side_of
from steptune.published.table import read_rows


class LoserKind(StrEnum):
    """What the slower side did."""

    ASYNC = "async"
    """Overlapped rollout and training with stale samples."""
    DISAGGREGATED = "disaggregated"
    """Gave each side its own devices and waited for every batch."""
    DEEPER_ASYNC = "deeper_async"
    """Ran further ahead than another asynchronous arm."""
    PD_ENGINES = "pd_engines"
    """Split prefill from decode; trainer and engines stayed together."""


class AsyncLoser(Record):
    """One pair: ``AsyncLoser(id="nemo-v0.6-gb200-30ba3b", sync_s=221, async_s=301, time_ratio=1.362, ...)``."""

    id: str
    source: str | None = None
    """Repository, path and commit, or a link; None where the text was read without its address: never scored."""
    kind: LoserKind
    framework: str
    model: str | None = None
    gpu_type: str | None = None
    num_gpus_sync: int | None = None
    num_gpus_async: int | None = None
    num_train_gpus_async: int | None = None
    """Devices of the trainer on the asynchronous side."""
    sync: str
    """The synchronous or colocated side, in words."""
    asynchronous: str
    """The other side, in words."""
    sync_s: float | None = None
    async_s: float | None = None
    time_ratio: float | None = None
    """Time of the asynchronous side / time of the other, at equal work; above 1 is slower."""
    held_equal: str
    differs: str
    """What else differs than the schedule or the placement."""
    run_ids: str | None = None
    """The two rows of the table of public runs, where they stand there."""
    stated: dict[str, float] = {}
    """Further columns of `PublicRun` that hold for both sides: batch, lengths, layout."""
    quality: str
    note: str | None = None

    @property
    def is_scored(self) -> bool:
        """Whether a sign can be held against it: an address and a ratio, and not the lowest quality."""
        return self.source is not None and self.time_ratio is not None and self.quality != "C"

    @property
    def side(self) -> Side:
        """Whether constants may be fitted on it."""
        return side_of(self.source) if self.source is not None else Side.TEST


@cache
def async_losers() -> tuple[AsyncLoser, ...]:
    """Return every pair, in the table's order."""
    return tuple(map(_typed, read_rows("async_losers.csv")))


def _typed(row: dict[str, str]) -> AsyncLoser:
    fields: dict[str, object] = {name: text for name, text in row.items() if text}
    return AsyncLoser.model_validate({**fields, "stated": json.loads(row["stated"] or "{}")})
