"""What the campaign asks of an engine's half.

::

    profile(job)        once per job, before any forecast; kept in a file, so a resumed campaign reads it again
    forecast(told, ...) for every candidate before the first trial; again before each later trial
    pair(job, moves)    one trial: incumbent and candidate take turns in blocks inside one call
    same(job)           the incumbent against itself, exactly as `pair` does it

Surprise: `forecast` gets the job without its disturbance, and must not measure anything: it is handed what `profile`
measured and the trials settled so far, and nothing else. It is asked on one core while nothing else runs.
"""

from collections.abc import Sequence
from typing import Protocol, TypeVar

from prospective.job import Job, Moves
from steptune.core.records import Record
from steptune.stats.ratio import block_means, geometric_mean, paired_ratios

Seen = TypeVar("Seen", bound=Record)
"""What an engine's profile is."""


class Told(Record):
    """A forecast: ``Told(ratio=0.71, low=0.66, high=0.77, num_free_parameters=9)``."""

    ratio: float
    """Candidate / incumbent step time."""
    low: float
    """Lower end of the 80 % interval."""
    high: float
    num_free_parameters: int
    """Constants fitted on the job's profile or trials; priors are not counted."""
    phases_frac: dict[str, float] = {}
    """Forecast busy seconds of the candidate by ``role:phase`` over the incumbent's step; empty where nobody tells."""


class PairTimes(Record):
    """Step times of one trial, warm-up dropped, block by block: ``PairTimes(incumbent_s=((0.31, 0.30), ...), ...)``.

    Block i of both arms belong together: they ran one after the other, and every other pair the other way round.
    """

    incumbent_s: tuple[tuple[float, ...], ...]
    candidate_s: tuple[tuple[float, ...], ...]
    incumbent_phases_s: dict[str, float] = {}
    """Busy seconds per step by ``role:phase``; empty where the engine does not tell."""
    candidate_phases_s: dict[str, float] = {}
    note: str = ""
    """Anything a reader should know (lag, preemptions)."""

    @property
    def ratio(self) -> float:
        """Candidate / incumbent: the geometric mean over pairs of blocks of the ratio of their mean step times."""
        candidate, incumbent = block_means(self.candidate_s), block_means(self.incumbent_s)
        return geometric_mean(paired_ratios(candidate, incumbent))


class Settled(Record):
    """A finished trial as a later forecast may know it. A trial that failed is not among them."""

    moves: Moves
    pair: PairTimes


class Backend(Protocol[Seen]):
    """One engine's half of the campaign."""

    profile_type: type[Seen]
    """Reads a kept profile back."""

    def profile(self, job: Job) -> Seen:
        """Measure what the forecaster may see. Runs no candidate. Raises StepTuneError when it cannot."""
        ...

    def forecast(self, told: Job, profile: Seen, settled: Sequence[Settled], moves: Moves) -> Told:
        """Forecast the candidate / incumbent ratio; ``settled`` is empty for a first forecast.

        Raises:
            StepTuneError: no number can be given. A refusal counts as a miss.
        """
        ...

    def pair(self, job: Job, moves: Moves) -> PairTimes:
        """Run a trial. Raises MemoryError or StepTuneError when the candidate fails: a miss."""
        ...

    def same(self, job: Job) -> PairTimes:
        """Run the incumbent against itself, launched twice."""
        ...
