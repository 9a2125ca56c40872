"""Forecast ages of trained tokens against those that the embedded engine measured in the prospective campaign.

Nothing is run: profiles, configurations and measured mean ages are those of `bench/results/prospective`, and every age
is forecast from its job's profile alone, as a session does for a first forecast. Surprise: ages were not forecast when
the campaign ran, so this is hindsight; what the campaign hides from the forecaster is hidden here too.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, median

from prospective.campaign import profile_path
from prospective.campaign_journal import Body, CampaignLine, SameDone, TrialDone
from prospective.embedded_half import EmbeddedHalf
from prospective.frozen import LISTS
from prospective.job import Job, Moves
from steptune.core.profile import Profile
from steptune.core.records import Record
from steptune.store.journal import read_lines

FOLDER = Path(__file__).parent / "results" / "prospective"
WITHIN = 0.15
"""Updates that a mean age may be off (issue 5, staleness)."""


class Row(Record):
    """One configuration with a queue."""

    job: str
    settings: dict[str, bool | int | float | str | None]
    is_incumbent: bool
    disturbance: str
    measured: float
    """Mean age at a step's first update."""
    forecast: float | None
    low: float | None
    high: float | None
    shares: dict[int, float]
    unknown: str


def main(arguments: Sequence[str]) -> int:
    """Print a row for every queue of the campaign, and how far the forecasts are off."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one job")
    parser.add_argument("--out", type=Path, help="where the rows go")
    options = parser.parse_args(arguments)
    rows = rows_of(FOLDER, is_quick=options.quick)
    print("\n".join(map(_line, rows)))
    print(summary(rows))
    if options.out:
        options.out.write_text(json.dumps([row.model_dump() for row in rows], indent=1) + "\n", encoding="utf-8")
    return 0


def rows_of(folder: Path, *, is_quick: bool) -> list[Row]:
    """Return every configuration whose mean age the campaign wrote down."""
    jobs = {job.name: job for job in LISTS[1].frozen() if job.engine == "embedded"}
    seen: list[tuple[Job, Moves, bool, str]] = []
    for event in _events(folder):
        if isinstance(event, SameDone | TrialDone) and event.job in jobs and event.pair is not None:
            job = jobs[event.job]
            moves = job.candidates[event.number] if isinstance(event, TrialDone) else {}
            if event.pair.note.startswith("mean lag "):
                seen.append((job, moves, isinstance(event, SameDone), event.pair.note))
    return [_row(folder, *each) for each in (seen[:1] if is_quick else seen)]


def _row(folder: Path, job: Job, moves: Moves, is_incumbent: bool, note: str) -> Row:
    half = EmbeddedHalf(folder=Path("runs") / "forecast_lag")
    profile = Profile.model_validate_json(profile_path(folder, job).read_text(encoding="utf-8"))
    ages = half.ages(job.told(), profile, moves)
    mean = ages.mean
    return Row(
        job=job.name,
        settings={name: job.settings(moves)[name] for name in ("schedule", "max_lag", "partial_rollout")},
        is_incumbent=is_incumbent,
        disturbance="" if job.disturbance is None else job.disturbance.kind,
        measured=float(note.removeprefix("mean lag ")),
        forecast=None if mean is None else mean.value,
        low=None if mean is None else mean.low,
        high=None if mean is None else mean.high,
        shares={share.lag: share.share.value for share in ages.shares},
        unknown=ages.unknown,
    )


def _events(folder: Path) -> list[Body]:
    return [entry.body for entry in read_lines(folder / "journal.jsonl", CampaignLine)]


def _line(row: Row) -> str:
    told = "refused" if row.forecast is None else f"{row.forecast:.2f}"
    if row.low is not None and row.high is not None:
        told += f" ({row.low:.2f} to {row.high:.2f})"
    shares = " ".join(f"{lag}:{share:.2f}" for lag, share in row.shares.items())
    what = " ".join(f"{value}" for value in row.settings.values())
    whose = "incumbent" if row.is_incumbent else "candidate"
    return (
        f"{row.job} {whose:<10}{what:<20}{row.disturbance:<11} measured {row.measured:.2f} forecast {told:<24}{shares}"
    )


def summary(rows: Sequence[Row]) -> str:
    """Return how far the means are off, queues that race and partial rollouts apart."""
    lines: list[str] = []
    for what in ("async", "sync"):
        errors = [
            abs(r.forecast - r.measured) for r in rows if r.settings["schedule"] == what and r.forecast is not None
        ]
        if errors:
            inside = sum(error <= WITHIN for error in errors)
            name = "streams" if what == "async" else "partial rollouts"
            lines.append(
                f"{name}: mean age within {WITHIN} in {inside} of {len(errors)}; off by "
                f"{fmean(errors):.3f} in the mean, {median(errors):.3f} in the median, {max(errors):.3f} at worst"
            )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
