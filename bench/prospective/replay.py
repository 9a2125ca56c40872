"""Forecasts a finished campaign again with today's code, from its profiles and journal: seconds instead of an hour.

Every forecast is made again from what was known before it: the job's profile, and the trials that the first one had
learnt from. Surprise: this is hindsight. Whoever changed the model had seen these trials; only a campaign that was
begun after the change says how good it is.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from prospective.backend import Backend, Settled
from prospective.campaign import profile_path
from prospective.campaign_journal import Body, ForecastMade, TrialDone
from prospective.campaign_score import CampaignScore
from prospective.job import Engine, Job
from steptune.core.errors import StepTuneError, StoreError, explain
from steptune.core.records import Record
from steptune.score.prospective import ProspectiveLine


def replayed(
    events: Sequence[Body],
    jobs: Sequence[Job],
    folder: Path,
    backends: Mapping[Engine, Callable[[], Backend[Any]]],
) -> list[Body]:
    """Return the journal of ``jobs`` with today's forecasts in place of the recorded ones, everything else as it was.

    A job whose profile is not in ``folder`` is left out, and so are the forecasts of trials that never ended.

    Raises:
        StoreError: a profile was measured another way than today's code reads.
    """
    by_name = {job.name: job for job in jobs if profile_path(folder, job).exists()}
    made: dict[Engine, Backend[Any]] = {}
    profiles: dict[str, Record] = {}
    for job in by_name.values():
        if job.engine not in made:
            made[job.engine] = backends[job.engine]()
        profiles[job.name] = _read_profile(profile_path(folder, job), made[job.engine].profile_type)
    done = {(e.job, e.number): e for e in events if isinstance(e, TrialDone)}
    again: list[Body] = []
    for event in events:
        job = by_name.get(getattr(event, "job", ""))
        if job is None or (isinstance(event, ForecastMade) and (event.job, event.number) not in done):
            continue
        if isinstance(event, ForecastMade):
            event = _again(event, job, made[job.engine], profiles[job.name], done)
        again.append(event)
    return again


def _read_profile(path: Path, kind: type[Record]) -> Record:
    try:
        return kind.model_validate_json(path.read_text(encoding="utf-8"))
    except ValidationError as error:
        raise StoreError(
            explain(
                f"{path.name} is no profile that today's code can forecast from",
                got=f"{error.error_count()} fields that do not fit",
                allowed=f"what a campaign of today saves: {kind.__name__}",
                hint="name the jobs to forecast again with --job, without this one",
            )
        ) from error


def _again(
    event: ForecastMade,
    job: Job,
    backend: Backend[Any],
    profile: Record,
    done: Mapping[tuple[str, int], TrialDone],
) -> ForecastMade:
    pairs = ((number, done[job.name, number].pair) for number in event.learnt_from)
    settled = [Settled(moves=job.candidates[number], pair=pair) for number, pair in pairs if pair is not None]
    told, refused = None, ""
    try:
        told = backend.forecast(job.told(), profile, settled, job.candidates[event.number])
    except StepTuneError as error:
        refused = f"{type(error).__name__}: {error}"
    return event.model_copy(update={"told": told, "refused": refused})


def side_by_side(recorded: CampaignScore, today: CampaignScore) -> str:
    """Return both scores' lines of forecasts, all engines and each alone, as a table."""
    head = ("forecasts", "", "median", "90th pct", "in 80 %", "half width", "scored")
    rows: list[Sequence[str]] = []
    for engine in ("", *today.by_engine):
        for what, score in (("recorded", recorded), ("today", today)):
            lines = score.by_engine[engine] if engine else score.lines
            rows += [_cells(engine, what, line) for line in lines if line.arm == "forecast"]
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    cells = [[cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in [head, *sorted(rows)]]
    return "\n".join("  ".join(row).rstrip() for row in cells)


def _cells(engine: str, what: str, line: ProspectiveLine) -> Sequence[str]:
    figures = (line.median_frac, line.p90_frac, line.inside_frac, line.half_width_frac)
    return (
        f"{engine or 'all engines'}: {line.what}",
        what,
        *("-" if figure is None else f"{figure:.1%}" for figure in figures),
        str(line.num_scored),
    )
