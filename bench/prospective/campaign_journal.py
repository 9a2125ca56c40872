"""What a campaign writes down, in order, in a chain of hashes (`steptune.store.journal`): nothing is scored but this.

::

    Began -> [ Profiled -> ForecastMade(first)* -> SameDone -> [ ForecastMade(later)? -> TrialBegan -> TrialDone ]* ]*

A `TrialBegan` without `TrialDone` was killed and is run again: what was forecast for it stays.
"""

from typing import Annotated, Literal

from pydantic import Field

from prospective.backend import PairTimes, Told
from steptune.core.records import Record
from steptune.store.journal_lines import Line


class Began(Record):
    """Everything fixed before the first profile; a resumed campaign must bring the same."""

    kind: Literal["began"] = "began"
    commit: str
    """Of the tree that forecasts."""
    code_hash: str
    """Of the package, `steptune.store.codehash`."""
    bench_hash: str
    """Of `bench/prospective`."""
    jobs_hash: str
    """Of the list of jobs."""
    is_quick: bool
    """A smoke run: never scored as the campaign."""
    machine: str


class Profiled(Record):
    """A job's profile was measured, or could not be."""

    kind: Literal["profiled"] = "profiled"
    job: str
    profile_hash: str | None
    """Of the record, kept in a file beside the journal; None when it failed."""
    cause: str = ""
    wall_s: float


class ForecastMade(Record):
    """A forecast; ``number`` is the candidate's place in the job's list."""

    kind: Literal["forecast"] = "forecast"
    job: str
    number: int
    is_first: bool
    told: Told | None
    """None when refused: a miss."""
    refused: str = ""
    learnt_from: tuple[int, ...]
    """Trials of the job that had been settled."""


class SameDone(Record):
    """The incumbent against itself. ``pair`` None when it failed."""

    kind: Literal["same"] = "same"
    job: str
    pair: PairTimes | None
    cause: str = ""
    wall_s: float


class TrialBegan(Record):
    """A trial is about to launch."""

    kind: Literal["trial_began"] = "trial_began"
    job: str
    number: int


class TrialDone(Record):
    """A trial has a result: times, or why there are none."""

    kind: Literal["trial_done"] = "trial_done"
    job: str
    number: int
    pair: PairTimes | None
    cause: str = ""
    wall_s: float


Body = Annotated[
    Began | Profiled | ForecastMade | SameDone | TrialBegan | TrialDone,
    Field(discriminator="kind"),
]
CampaignLine = Line[Body]
"""A line of the campaign's journal."""
