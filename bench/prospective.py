"""Forecasts written before their trials, over every engine: see `docs/design/scoreboard.md`.

`python bench/prospective.py [--campaign N] [--minutes 45] [--job PATTERN ...] [--folder FOLDER]` runs a committed list
of jobs, or goes on with it, prints the table and, when every job is done, writes its file in `bench/results`.
`--quick` is a smoke run (two candidates a job, dirty trees allowed, nothing written);
`--score` only reads a folder, finished or not, and with `--write` saves what it finds;
`--replay` reads a folder and forecasts everything again with today's code, in retrospect;
`--phases` adds which phases were missed;
`--freeze` writes the list that the seed draws; `--list` prints the committed one.
"""

import argparse
import platform
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from fnmatch import fnmatch
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "src")]

from prospective.campaign import Campaign  # noqa: E402
from prospective.campaign_journal import Began, Body, CampaignLine  # noqa: E402
from prospective.campaign_score import CampaignScore, order_problems, score_campaign  # noqa: E402
from prospective.campaign_table import campaign_text  # noqa: E402
from prospective.frozen import LISTS, JobList, as_text, list_hash  # noqa: E402
from prospective.halves import halves  # noqa: E402
from prospective.job import Job  # noqa: E402
from prospective.phase_table import phase_text  # noqa: E402
from prospective.replay import replayed, side_by_side  # noqa: E402
from steptune.core.errors import StepTuneError, StoreError, explain  # noqa: E402
from steptune.core.records import Record  # noqa: E402
from steptune.store.codehash import code_hash  # noqa: E402
from steptune.store.files import replace  # noqa: E402
from steptune.store.journal import create_journal, open_lines, read_lines  # noqa: E402
from steptune.store.lock import machine_lock  # noqa: E402

RESULTS = HERE / "results"
QUICK_CANDIDATES = 2
"""Candidates of a job in a smoke run."""


class Result(Record):
    """What a campaign's file in `bench/results` holds."""

    began: Began
    score: CampaignScore


def main(arguments: Sequence[str]) -> int:
    """Do what is asked."""
    options = _options(arguments)
    chosen = LISTS[options.campaign]
    if options.freeze:
        replace(chosen.file, as_text(chosen.drawn()))
    if options.list:
        for job in chosen.frozen():
            print(job.name, job.model, job.disturbance, *job.candidates, sep="\n    ")
    if options.freeze or options.list:
        return 0
    try:
        return _replay(options, chosen) if options.replay else _run(options, chosen)
    except StepTuneError as error:
        print(error, file=sys.stderr)
        return 1


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="prospective campaign")
    parser.add_argument("--campaign", type=int, choices=tuple(LISTS), default=1, help="which list of jobs")
    parser.add_argument("--minutes", type=float, default=60.0, help="wall budget of this call")
    parser.add_argument("--job", action="append", default=[], help="name or pattern, as often as wanted")
    parser.add_argument("--folder", type=Path, help="journal, profiles and runs (default: runs/NAME of the campaign)")
    parser.add_argument("--quick", action="store_true", help="smoke run, nothing written")
    parser.add_argument("--score", action="store_true", help="only score what the folder holds")
    parser.add_argument(
        "--write", action="store_true", help="with --score: save the score of an unfinished campaign too"
    )
    parser.add_argument("--replay", action="store_true", help="forecast what the folder holds again, in retrospect")
    parser.add_argument("--phases", action="store_true", help="also print the errors by phase")
    parser.add_argument("--freeze", action="store_true", help="write the list of jobs that the seed draws")
    parser.add_argument("--list", action="store_true", help="print the committed list")
    options = parser.parse_args(arguments)
    options.folder = options.folder or Path("runs") / LISTS[options.campaign].results
    return options


def _run(options: argparse.Namespace, chosen: JobList) -> int:
    jobs = _jobs(chosen, is_quick=options.quick)
    path = options.folder / "journal.jsonl"
    is_done = True
    if not options.score:
        journal = _open(path, _began(jobs, is_quick=options.quick))
        wanted = _wanted(jobs, options.job)
        campaign = Campaign(
            journal=journal,
            folder=options.folder,
            backends=halves(options.folder / "runs"),
            budget_s=60 * options.minutes,
            say=lambda text: print(text, file=sys.stderr, flush=True),
        )
        with machine_lock(lambda pid, waited_s: None):
            is_done = campaign.run(wanted) and len(wanted) == len(jobs)
    events = _events(path)
    score = score_campaign(events, jobs)
    print(campaign_text(score))
    if options.phases:
        print("", phase_text(events, jobs), sep="\n")
    if options.write if options.score else is_done and not options.quick:
        replace(
            RESULTS / f"{chosen.results}.json",
            Result(began=_began_of(events), score=score).model_dump_json(indent=1) + "\n",
        )
    return 0


def _replay(options: argparse.Namespace, chosen: JobList) -> int:
    """Print the recorded score and today's, which is hindsight, of the jobs whose profiles are there."""
    jobs = _wanted(chosen.frozen(), options.job)
    events = _events(options.folder / "journal.jsonl")
    again = replayed(events, jobs, options.folder, halves(options.folder / "runs"))
    kept = {getattr(event, "job", None) for event in again}
    before = [event for event in events if getattr(event, "job", None) in kept]
    print(side_by_side(score_campaign(before, jobs), score_campaign(again, jobs)))
    if options.phases:
        print("", phase_text(again, jobs), sep="\n")
    return 0


def _events(path: Path) -> list[Body]:
    events = [entry.body for entry in read_lines(path, CampaignLine)]
    problems = order_problems(events)
    if problems:
        raise StoreError("; ".join(problems))
    return events


def _wanted(jobs: tuple[Job, ...], patterns: Sequence[str]) -> tuple[Job, ...]:
    return tuple(job for job in jobs if not patterns or any(fnmatch(job.name, p) for p in patterns))


def _jobs(chosen: JobList, *, is_quick: bool) -> tuple[Job, ...]:
    jobs = chosen.frozen()
    if not is_quick:
        return jobs
    return tuple(job.model_copy(update={"candidates": job.candidates[:QUICK_CANDIDATES]}) for job in jobs)


def _open(path: Path, began: Began):  # noqa: ANN202
    """Open the folder's journal for this campaign, or make it."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        create_journal(path)
    journal = open_lines(path, lambda: datetime.now(UTC), CampaignLine)
    if not journal.entries:
        journal.append(began)
    before = _began_of(journal.events)
    if before != began:
        hint = "run it from the commit it was begun with, or begin another in a new folder"
        raise StoreError(explain("this campaign was begun by another", got=began, allowed=before, hint=hint))
    return journal


def _began_of(events: Sequence[object]) -> Began:
    first = events[0]
    if not isinstance(first, Began):
        raise StoreError("the journal does not begin as a campaign's does; hint: use another folder")
    return first


def _began(jobs: tuple[Job, ...], *, is_quick: bool) -> Began:
    """Return everything that must stay as it is while the campaign runs.

    Raises:
        StoreError: the tree has changes that no commit holds.
    """
    changed = _git("status", "--porcelain", "--untracked-files=no")
    if changed and not is_quick:
        raise StoreError(
            explain(
                "the tree has uncommitted changes", got=changed, allowed="a clean tree", hint="commit, or `--quick`"
            )
        )
    return Began(
        commit=_git("rev-parse", "HEAD"),
        code_hash=code_hash(),
        bench_hash=code_hash(HERE / "prospective"),
        jobs_hash=list_hash(jobs),
        is_quick=is_quick,
        machine=f"{platform.machine()} {platform.system()}, Python {platform.python_version()}",
    )


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=HERE, capture_output=True, text=True, check=False)
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
