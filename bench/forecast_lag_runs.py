"""P(lag = k) of the embedded engine: profiled, forecast and written down, then run and counted. One job a call or all.

::

    profile (probe and A/A) -> one asynchronous candidate, drawn by seed -> forecast, appended -> run -> ages, appended

The jobs are those of the first prospective campaign; the candidate is drawn here, for that campaign wrote down mean
ages alone. Surprise: a job's baseline may be asynchronous itself; the candidate is another draw all the same.
"""

import argparse
import random
import sys
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path

from prospective.embedded_half import EmbeddedHalf
from prospective.embedded_space import companions, job_spec, problem
from prospective.frozen import LISTS
from prospective.job import Job, Moves
from steptune.core.lag import LagDistribution
from steptune.core.records import Record
from steptune.score.lags import measured_lag

SEED = 20261201
NUM_COUNTED = 24
"""Steps whose tokens are counted: six periods of the forced lengths."""

WITHIN_SHARE, WITHIN_MEAN = 0.05, 0.15
"""What P(lag = k) and the mean may be off (issue 5, staleness)."""


class LagRun(Record):
    """One configuration; ``measured`` is None in the line that is written before the run."""

    job: str
    moves: dict[str, bool | int | float | str | None]
    forecast: LagDistribution
    measured: LagDistribution | None = None


def main(arguments: Sequence[str]) -> int:
    """Forecast and run; print every line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--job", default="embedded-*", help="name or pattern")
    parser.add_argument("--quick", action="store_true", help="the first job alone")
    parser.add_argument("--out", type=Path, default=Path("runs") / "forecast_lag.jsonl", help="lines are appended")
    parser.add_argument("--score", action="store_true", help="only score the lines that are there")
    options = parser.parse_args(arguments)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    if not options.score:
        jobs = [job for job in LISTS[1].frozen() if job.engine == "embedded" and fnmatch(job.name, options.job)]
        for job in jobs[: 1 if options.quick else None]:
            _run(job, options.out)
    print(summary([LagRun.model_validate_json(line) for line in options.out.read_text("utf-8").splitlines()]))
    return 0


def _run(job: Job, out: Path) -> None:
    half, moves = EmbeddedHalf(folder=out.parent / "forecast_lag"), drawn(job)
    job = job.model_copy(update={"candidates": (moves,)})  # curves are probed for what candidates can reach
    ages = half.ages(job.told(), half.profile(job), moves)
    made = LagRun(job=job.name, moves=moves, forecast=ages)
    _append(out, made)
    num_updates = job_spec(job).algorithm.num_updates
    measured = measured_lag(half.run(job, moves, num_steps=NUM_COUNTED), num_updates=num_updates)
    _append(out, made.model_copy(update={"measured": measured}))


def drawn(job: Job) -> Moves:
    """Return the asynchronous candidate that the seed draws for a job: lag, weights in flight, layout."""
    rng = random.Random(f"lag {SEED} {job.name}")
    while True:
        moves: Moves = {
            "schedule": "async",
            "max_lag": rng.choice((1, 2)),
            "inflight_update": rng.choice((False, True)),
            "layout": rng.choice(("padded", "packed", "shared_prefix")),
            "recompute": rng.choice((False, True)),
            "rollout_concurrency": rng.choice((None, None, 16)),
            "rollout_cores": None,
            "partial_rollout": None,
        }
        moves |= companions(job.settings(moves))
        if problem(job, job.settings(moves)) is None:
            return {knob: value for knob, value in moves.items() if value != job.baseline[knob]}


def _append(out: Path, line: LagRun) -> None:
    with out.open("a", encoding="utf-8") as file:
        file.write(line.model_dump_json() + "\n")
    print(line_text(line), flush=True)


def line_text(line: LagRun) -> str:
    """Return one configuration's shares, forecast and measured."""
    ours, theirs = (_shares(ages) for ages in (line.forecast, line.measured))
    told = " ".join(f"{lag}: {ours.get(lag, 0.0):.2f}/{theirs.get(lag, 0.0):.2f}" for lag in sorted({*ours, *theirs}))
    return f"{line.job} forecast/measured {told}" if line.measured else f"{line.job} forecast {ours}"


def summary(lines: Sequence[LagRun]) -> str:
    """Return how many configurations were told as the issue asks; one forecast and never run is a miss."""
    last = {line.job: line for line in lines}
    errors = [_errors(line) for line in last.values()]
    shares, means = [share for share, _ in errors], [mean for _, mean in errors]
    held = sum(len(_shares(line.measured)) == 1 for line in last.values())
    return (
        f"{len(last)} configurations, {held} at one age throughout: every share within {WITHIN_SHARE} in "
        f"{sum(e <= WITHIN_SHARE for e in shares)} (worst {max(shares):.3f}), mean within {WITHIN_MEAN} in "
        f"{sum(e <= WITHIN_MEAN for e in means)} (worst {max(means):.3f})"
    )


def _errors(line: LagRun) -> tuple[float, float]:
    """Return the largest error of a share and that of the mean; infinite where either is missing."""
    ours, theirs, measured = _shares(line.forecast), _shares(line.measured), line.measured
    if line.forecast.mean is None or measured is None or measured.mean is None or not theirs:
        return float("inf"), float("inf")
    worst = max(abs(ours.get(lag, 0.0) - theirs.get(lag, 0.0)) for lag in {*ours, *theirs})
    return worst, abs(line.forecast.mean.value - measured.mean.value)


def _shares(ages: LagDistribution | None) -> dict[int, float]:
    return {} if ages is None else {row.lag: row.share.value for row in ages.shares}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
