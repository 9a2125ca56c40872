"""Scores a campaign's journal: errors, coverage and widths, beside *no change*, *best past trial* and the A/A repeats.

The figures come from `steptune.score.prospective`, as those of a session do: jobs weigh the same. Surprise: *all* here
is every forecast that stood before its trial, first and later together; a refusal, a crash and a job that could not
be profiled are infinite errors and uncovered.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import Field

from prospective.backend import PairTimes, Told
from prospective.campaign_journal import Body, ForecastMade, SameDone, TrialBegan, TrialDone
from prospective.floor import Floor, floors
from prospective.job import Job
from prospective.left_out import LeftOutLine, left_out_lines
from steptune.core.estimate import Estimate, Source
from steptune.core.records import Record
from steptune.score.forecasts import Fate, ForecastScore
from steptune.score.prospective import Judged, ProspectiveLine, Sort, is_large, lines_of, num_levers
from steptune.score.quantiles import as_frac, equal_weight_quantile

FAR = math.log(1.15)
"""|ln ratio| above which a trial moved the step time far: half of them should."""

MAX_MEDIAN = {"all forecasts": 0.06, "first forecasts": 0.08}
"""Target of the median error, unless the A/A repeats ask for more."""

AA_FACTOR = 1.5
"""Times the A/A median that a target is at least."""

MAX_P90, COVERAGE, MAX_HALF_WIDTH = 0.20, (0.70, 0.90), 0.10
"""Targets: 90th percentile of the error, part of measured ratios inside 80 % intervals, their median half width."""

MIN_JOBS, MIN_TRIALS, MIN_FAR = 25, 120, 0.5
"""How large the campaign has to be, and which part of its trials must have moved far."""

SORTS: tuple[Sort, ...] = (
    ("all forecasts", lambda judged: True),
    ("first forecasts", lambda judged: judged.score.is_first),
    ("later forecasts", lambda judged: not judged.score.is_first),
    ("first forecasts, one lever", lambda judged: judged.score.is_first and num_levers(judged) == 1),
    ("first forecasts, two levers", lambda judged: judged.score.is_first and num_levers(judged) == 2),
    ("first forecasts, three levers or more", lambda judged: judged.score.is_first and num_levers(judged) > 2),
    ("first forecasts, moves over 10 %", lambda judged: judged.score.is_first and is_large(judged)),
    ("later forecasts, moves over 10 %", lambda judged: not judged.score.is_first and is_large(judged)),
)
"""Rows of the table."""

ENGINE_SORTS = SORTS[:3]
"""Rows of an engine's own table."""


class Against(Record):
    """One thing asked for: ``Against(what="median of all", wanted="at most 6.0 %", got="5.1 %", holds=True)``."""

    what: str
    wanted: str
    got: str
    holds: bool


class CampaignScore(Record):
    """Everything that is printed."""

    num_jobs: int
    num_trials: int
    num_unfinished: int
    """Trials without a ratio."""
    far_frac: float
    """Trials that moved step time by more than 15 %, of those with a ratio."""
    aa_median_frac: float | None
    """Median error of *no change* on the incumbent against itself, jobs weighted equally."""
    aa_p90_frac: float | None
    lines: tuple[ProspectiveLine, ...]
    by_engine: dict[str, tuple[ProspectiveLine, ...]]
    disturbed: tuple[ProspectiveLine, ...]
    """Jobs with a disturbance alone."""
    left_out: tuple[LeftOutLine, ...]
    """Two constants an engine, fitted in retrospect with each job left out."""
    against: tuple[Against, ...]
    max_free_parameters: int
    floors: Annotated[tuple[Floor, ...], Field(exclude=True)] = ()
    """Noise of every engine: printed, not saved, as the journal tells it at any time."""


def score_campaign(events: Sequence[Body], jobs: Sequence[Job]) -> CampaignScore:
    """Return the score of the jobs that have trials. ``events`` must be in order (`order_problems`)."""
    judged = {job.name: found for job in jobs if (found := judged_job(events, job))}
    done = [event for event in events if isinstance(event, TrialDone) and event.job in judged]
    ratios = [event.pair.ratio for event in done if event.pair is not None]
    repeats = {e.job: [abs(math.log(e.pair.ratio))] for e in events if isinstance(e, SameDone) and e.pair is not None}
    aa_median, aa_p90 = (as_frac(equal_weight_quantile(repeats, q)) for q in (0.5, 0.9))
    lines = lines_of(judged, SORTS)
    made = [event.told for event in events if isinstance(event, ForecastMade) and event.told is not None]
    far_frac = sum(abs(math.log(ratio)) > FAR for ratio in ratios) / len(ratios) if ratios else 0.0
    engine_of = {job.name: job.engine for job in jobs}
    by_engine = {
        engine: {name: one for name, one in judged.items() if engine_of[name] == engine}
        for engine in sorted({engine_of[name] for name in judged})
    }
    has_disturbance = {job.name: job.disturbance is not None for job in jobs}
    return CampaignScore(
        num_jobs=len(judged),
        num_trials=len(done),
        num_unfinished=len(done) - len(ratios),
        far_frac=far_frac,
        aa_median_frac=aa_median,
        aa_p90_frac=aa_p90,
        lines=lines,
        by_engine={engine: lines_of(one, ENGINE_SORTS) for engine, one in by_engine.items()},
        left_out=left_out_lines(by_engine),
        disturbed=lines_of({name: one for name, one in judged.items() if has_disturbance[name]}, ENGINE_SORTS),
        against=_against(lines, aa_median, num_jobs=len(judged), num_trials=len(done), far_frac=far_frac),
        max_free_parameters=max((told.num_free_parameters for told in made), default=0),
        floors=floors(events, jobs),
    )


def judged_job(events: Sequence[Body], job: Job) -> tuple[Judged, ...]:
    """Return every forecast of a job that stood before its trial, with what came of it."""
    done = {e.number: e for e in events if isinstance(e, TrialDone) and e.job == job.name}
    past: list[float] = []
    found: list[Judged] = []
    for event in events:
        if isinstance(event, TrialDone) and event.job == job.name and event.pair is not None:
            past.append(event.pair.ratio)
        if isinstance(event, ForecastMade) and event.job == job.name and event.number in done:
            score = _score(event, done[event.number], job)
            found.append(Judged(score=score, best_past_ratio=min([1.0, *past])))
    return tuple(found)


def order_problems(events: Sequence[Body]) -> list[str]:
    """Return every forecast that stands after the trial it is about, or after another trial's if it is a first one."""
    problems: list[str] = []
    for place, event in enumerate(events):
        if not isinstance(event, ForecastMade):
            continue
        begun = [e.number for e in events[:place] if isinstance(e, TrialBegan) and e.job == event.job]
        if event.number in begun or (event.is_first and begun):
            problems.append(f"line {place + 1}: a forecast of {event.job}/{event.number} after trials {begun}")
    return problems


def _score(made: ForecastMade, done: TrialDone, job: Job) -> ForecastScore:
    told, pair = made.told, done.pair
    return ForecastScore(
        target=f"{job.name}/{made.number}",
        change=job.change(job.candidates[made.number]),
        is_first=made.is_first,
        fate=_fate(told, pair),
        forecast=None if told is None else _estimate(told.ratio, told.low, told.high, Source.FORECAST),
        measured=None if pair is None else _estimate(pair.ratio, None, None, Source.MEASURED),
        why=made.refused or done.cause,
    )


def _fate(told: Told | None, pair: PairTimes | None) -> Fate:
    if told is None or pair is None:
        return Fate.NOT_FINISHED
    return Fate.INSIDE if told.low <= pair.ratio <= told.high else Fate.OUTSIDE


def _estimate(value: float, low: float | None, high: float | None, source: Source) -> Estimate:
    return Estimate(value=value, low=low, high=high, unit="x", source=source)


def _against(
    lines: Sequence[ProspectiveLine], aa_median: float | None, *, num_jobs: int, num_trials: int, far_frac: float
) -> tuple[Against, ...]:
    ours: Mapping[str, ProspectiveLine] = {line.what: line for line in lines if line.arm == "forecast"}
    rows = [
        _row("jobs", f"at least {MIN_JOBS}", str(num_jobs), num_jobs >= MIN_JOBS),
        _row("trials", f"at least {MIN_TRIALS}", str(num_trials), num_trials >= MIN_TRIALS),
        _row("trials that moved over 15 %", f"at least {MIN_FAR:.0%}", f"{far_frac:.0%}", far_frac >= MIN_FAR),
    ]
    for what, least in MAX_MEDIAN.items():
        target = max(least, AA_FACTOR * (aa_median or 0.0))
        got = ours[what].median_frac if what in ours else None
        rows.append(_most(f"median error, {what}", target, got))
    line = ours.get("all forecasts")
    rows.append(_most("90th percentile of the error, all forecasts", MAX_P90, line.p90_frac if line else None))
    inside, (low, high) = line.inside_frac if line else None, COVERAGE
    holds = inside is not None and low <= inside <= high
    rows.append(_row("inside 80 % intervals", f"{low:.0%} to {high:.0%}", _percent(inside), holds))
    rows.append(_most("median half width of the intervals", MAX_HALF_WIDTH, line.half_width_frac if line else None))
    return tuple(rows)


def _row(what: str, wanted: str, got: str, holds: bool) -> Against:
    return Against(what=what, wanted=wanted, got=got, holds=holds)


def _most(what: str, most: float, got: float | None) -> Against:
    return _row(what, f"at most {most:.1%}", _percent(got), got is not None and got <= most)


def _percent(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.1%}"
