"""`steptune score`: how good are forecasts? Our own over run folders, and every arm over public runs."""

import argparse
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from steptune import __version__
from steptune.cli.public_model import refitted_without
from steptune.cli.streams import print_line, print_plain
from steptune.cli.wrong_call import WrongCallError
from steptune.core.event import Event
from steptune.core.records import Record
from steptune.forecast.public.arm import PublicForecaster
from steptune.published.async_losers import async_losers
from steptune.published.memory_cases import fourth_cases, known_cases, memory_cases, third_cases
from steptune.published.public_run import public_runs
from steptune.score.board import Arms, Board, PublicData, public_board
from steptune.score.footprint_arm import footprint_answer, footprint_peak_gib
from steptune.score.memory import TRIVIAL_MEMORY_ARMS
from steptune.score.model import TRIVIAL_ARMS
from steptune.score.peaks import TRIVIAL_PEAKS
from steptune.score.plot import board_svg
from steptune.score.prospective import ProspectiveLine, aa_noise_frac, prospective_lines
from steptune.score.signs import TRIVIAL_SIGNS, sign_of
from steptune.score.text import board_text, prospective_text
from steptune.store.files import replace
from steptune.store.journal import read_journal
from steptune.store.run_folder import RunFolder


class Scores(Record):
    """What `steptune score --json` prints."""

    own: tuple[ProspectiveLine, ...] | None
    """Forecasts of the run folders; None without folders."""
    aa_noise_frac: float | None
    public: Board | None
    """None without `--public`."""


def run(args: argparse.Namespace) -> int:
    """Score the run folders named, the public runs, or both; print the tables, write the plot."""
    if not args.runs and not args.public:
        raise WrongCallError(
            "nothing to score; allowed: run folders, `--public`, or both; hint: `steptune score --public`"
        )
    if args.plot and not args.public:
        raise WrongCallError("`--plot` draws the public scoreboard; hint: add `--public`")
    sessions = {path: _events(Path(path)) for path in dict.fromkeys(args.runs)}
    board = _board() if args.public else None
    own = prospective_lines(sessions) if sessions else None
    noise = aa_noise_frac(sessions.values())
    if args.plot and board is not None:
        replace(Path(args.plot), board_svg(board))
    if args.json:
        print_line(Scores(own=own, aa_noise_frac=noise, public=board).model_dump_json(indent=2))
        return 0
    parts = [prospective_text(own, noise, len(sessions))] if own is not None else []
    print_plain("\n\n".join([*parts, *([board_text(board)] if board is not None else [])]) + "\n")
    return 0


def _board() -> Board:
    data = PublicData(
        runs=public_runs(),
        losers=async_losers(),
        cases=memory_cases(),
        known_cases=known_cases(),
        third_cases=third_cases(),
        fourth_cases=fourth_cases(),
    )
    model = PublicForecaster()
    arms = Arms(
        step=(*TRIVIAL_ARMS, model),
        sign=(*TRIVIAL_SIGNS, (model.name, sign_of(model))),
        memory=(*TRIVIAL_MEMORY_ARMS, ("footprint", footprint_answer)),
        peaks=(*TRIVIAL_PEAKS, ("footprint", footprint_peak_gib)),
        left_out={model.name: cache(lambda owner: refitted_without(owner, data.runs, model))},
        notes=(f"{model.name}: {model.free.listed()}",),
    )
    return public_board(data, arms, date=datetime.now(UTC).date().isoformat(), steptune_version=__version__)


def _events(path: Path) -> tuple[Event, ...]:
    return tuple(entry.body for entry in read_journal(RunFolder.open(path).journal_path))
