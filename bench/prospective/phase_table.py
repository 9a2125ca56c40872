"""The campaign's errors by phase: what a performance engineer reads before touching the model."""

import math
from collections.abc import Sequence

from prospective.backend import PairTimes, Told
from prospective.campaign_journal import Body, ForecastMade, TrialDone
from prospective.job import Job
from steptune.score.phase_errors import PhaseMiss, TrialPhases, misses_text, phase_misses, summary_text
from steptune.stats.ratio import block_means, geometric_mean

LEAST_ERROR = 0.08
"""|ln(forecast / measured)| from which a forecast gets a table of its own."""


def phase_text(events: Sequence[Body], jobs: Sequence[Job]) -> str:
    """Return a table per forecast that missed by `LEAST_ERROR`, then every forecast's misses by phase.

    Forecasts that name no phases (of engines that tell none, in journals of before) are left out.
    """
    done = {(e.job, e.number): e.pair for e in events if isinstance(e, TrialDone) and e.pair is not None}
    by_name = {job.name: job for job in jobs}
    far, every = dict[str, tuple[PhaseMiss, ...]](), list[PhaseMiss]()
    for made in (e for e in events if isinstance(e, ForecastMade)):
        pair, told = done.get((made.job, made.number)), made.told
        if pair is None or told is None or not told.phases_frac:
            continue
        misses = _misses(told, pair)
        every += misses
        if abs(math.log(told.ratio / pair.ratio)) >= LEAST_ERROR:
            far[_title(made, told, pair, by_name[made.job])] = misses
    return "\n".join([*misses_text(far), "", *summary_text(every)])


def _misses(told: Told, pair: PairTimes) -> tuple[PhaseMiss, ...]:
    base_s = geometric_mean(block_means(pair.incumbent_s))
    return phase_misses(
        TrialPhases(
            incumbent_s=pair.incumbent_phases_s,
            measured_s=pair.candidate_phases_s,
            forecast_s={phase: frac * base_s for phase, frac in told.phases_frac.items()},
            step_s=geometric_mean(block_means(pair.candidate_s)),
        )
    )


def _title(made: ForecastMade, told: Told, pair: PairTimes, job: Job) -> str:
    return (
        f"{made.job}/{made.number} {'first' if made.is_first else 'later'}: "
        f"forecast {told.ratio:.3f} ({told.low:.3f} to {told.high:.3f}), measured {pair.ratio:.3f}, "
        f"{math.log(told.ratio / pair.ratio):+.1%}; {job.candidates[made.number]}; {job.disturbance}"
    )
