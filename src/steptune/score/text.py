"""The scoreboard as text: one table a question, the noise of the data first, for every figure is read beside it."""

from collections.abc import Sequence
from textwrap import wrap

from steptune.score.board import Board, ChoiceLine, ErrorLine, SignLine
from steptune.score.memory import MemoryScore
from steptune.score.peaks import PeakLine
from steptune.score.prospective import ProspectiveLine
from steptune.score.refusals import RefusalLine

TEXT_WIDTH = 120
"""Columns of the printed board."""

NOTHING = "-"
"""Stands for what is not known."""


def board_text(board: Board) -> str:
    """Return the public scoreboard, ready to print."""
    return "\n".join(
        [
            f"Public runs, {board.date}, steptune {board.steptune_version}",
            f"jobs with a scored pair: {_counts(board.num_groups)}",
            f"ordered pairs left out: {_counts(board.num_pairs_left_out)}",
            "errors are |ln(forecast / measured)| as a percentage, jobs weighted equally",
            "in brackets: 80 % intervals, over jobs for errors and over cases for shares",
            *(line for note in board.notes for line in wrap(note, TEXT_WIDTH)),
            "",
            *_table(
                ["noise of the data", "median", "worst", "pairs", "jobs"],
                [
                    [
                        line.what,
                        _percent(line.median_frac),
                        _percent(line.worst_frac),
                        str(line.num_pairs),
                        str(line.num_groups),
                    ]
                    for line in board.noise
                ],
            ),
            "",
            *_error_table(board.errors),
            "",
            *_refusal_table(board.refusals),
            *_choice_table(board.choices),
            "",
            *_sign_table(board.signs),
            "",
            *_memory_table(board.memory),
            "",
            *_peak_table(board.peaks),
        ]
    )


def prospective_text(lines: Sequence[ProspectiveLine], aa_frac: float | None, num_sessions: int) -> str:
    """Return the scores of our own forecasts, ready to print."""
    noise = f"A/A noise of the sessions: median {_percent(aa_frac)}"
    title = f"Forecasts written before their trials, {num_sessions} run folder{'s' if num_sessions != 1 else ''}"
    return "\n".join([title, noise, "", *(prospective_table(lines) if lines else ["no forecast has a result"])])


def prospective_table(lines: Sequence[ProspectiveLine]) -> list[str]:
    """Return the lines of the table of our own forecasts, its head first."""
    head = ["forecasts", "arm", "median", "90th pct", "in 80 %", "half width", "scored", "unfinished"]
    rows = [
        [
            line.what,
            line.arm,
            _percent(line.median_frac),
            _percent(line.p90_frac),
            _percent(line.inside_frac),
            _percent(line.half_width_frac),
            str(line.num_scored),
            str(line.num_unfinished),
        ]
        for line in lines
    ]
    return _table(head, rows)


def _error_table(lines: Sequence[ErrorLine]) -> list[str]:
    head = ["statistic", "side", "arm", "median", "90th pct", "answered", "jobs"]
    rows = [
        [
            line.statistic,
            line.side,
            line.arm,
            _spread(line.median_frac, line.median_bounds_frac),
            _percent(line.p90_frac),
            f"{line.num_answered} of {line.num_asked}",
            str(line.num_groups),
        ]
        for line in lines
        if line.num_answered
    ]
    return _table(head, rows)


def _refusal_table(lines: Sequence[RefusalLine]) -> list[str]:
    if not lines:
        return []
    rows = [[line.reason, line.side, line.arm, str(line.num_pairs)] for line in lines]
    return [*_table(["refused because", "side", "arm", "pairs"], rows), ""]


def _choice_table(lines: Sequence[ChoiceLine]) -> list[str]:
    head = [
        "choice among equal devices",
        "side",
        "regret",
        "random pick",
        "mean rank",
        "order right",
        "choices",
        "jobs",
    ]
    rows = [
        [
            line.arm,
            line.side,
            _spread(line.regret_frac, line.regret_bounds_frac),
            _percent(line.random_regret_frac),
            NOTHING if line.mean_rank is None else f"{line.mean_rank:.2f}",
            _percent(line.order_right_frac),
            str(line.num_choices),
            str(line.num_groups),
        ]
        for line in lines
    ]
    return _table(head, rows)


def _sign_table(lines: Sequence[SignLine]) -> list[str]:
    head = ["is asynchronous faster?", "side", "balanced", "plain", "faster", "not faster", "refused"]
    rows = [
        [
            line.arm,
            line.side,
            _spread(line.balanced_frac, line.balanced_bounds_frac),
            _percent(line.plain_frac),
            str(line.num_faster),
            str(line.num_others),
            str(line.num_refused),
        ]
        for line in lines
    ]
    return _table(head, rows)


def _memory_table(scores: Sequence[MemoryScore]) -> list[str]:
    head = [
        "does it fit?",
        "caught",
        "refused wrongly",
        "too close",
        "cannot say",
        "ran out",
        "fitted",
    ]
    rows = [
        [
            score.name,
            _spread(score.oom_caught_frac, score.oom_caught_bounds),
            _spread(score.fit_refused_frac, score.fit_refused_bounds),
            _percent(score.too_close_frac),
            _percent(score.unknown_frac),
            str(score.num_oom),
            str(score.num_fit),
        ]
        for score in scores
    ]
    return _table(head, rows)


def _peak_table(lines: Sequence[PeakLine]) -> list[str]:
    head = ["highest memory of a GPU", "side", "median", "90th pct", "forecast above", "answered", "kinds"]
    rows = [
        [
            line.arm,
            line.side,
            _percent(line.median_frac),
            _percent(line.p90_frac),
            _percent(line.above_frac),
            f"{line.num_answered} of {line.num_asked}",
            str(line.num_groups),
        ]
        for line in lines
    ]
    return _table(head, rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    return [_row(head, widths), "  ".join("-" * width for width in widths), *(_row(row, widths) for row in rows)]


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def _spread(value: float | None, bounds: tuple[float, float] | None) -> str:
    """Return a figure with its 80 % interval, both in per cent."""
    return _percent(value) if bounds is None else f"{_percent(value)} ({100 * bounds[0]:.0f}-{100 * bounds[1]:.0f})"


def _percent(frac: float | None) -> str:
    if frac is None:
        return NOTHING
    return "infinite" if frac == float("inf") else f"{100 * frac:.1f} %"


def _counts(by_side: dict[str, int]) -> str:
    return ", ".join(f"{side} {count}" for side, count in by_side.items())
