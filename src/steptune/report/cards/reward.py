"""The reward test: runs of baseline and candidate that share a seed, trained from the same start.

Surprise: a candidate that equals the baseline proves nothing when neither learns, so the baseline's own gain
stands beside the difference.
"""

import math
from collections.abc import Sequence
from statistics import fmean

from steptune.core.estimate import Estimate
from steptune.core.event import RewardTested
from steptune.core.verdict import Verdict
from steptune.report.blocks import Block, Cell, Figure, Figures, Mark, RangeRow, Ranges, Table
from steptune.report.card import NotApplicable, Shown
from steptune.report.cells import judgement, number, numbers, words
from steptune.report.numbers import count_text, derived, estimate_text, measured
from steptune.report.session_view import SessionView

SERIES = ("start", "baseline", "candidate")
"""Drawing order of the three rewards of a seed."""


def card(view: SessionView) -> Shown | NotApplicable:
    """Show every paired seed."""
    if not view.reward_tests:
        return NotApplicable(why="no reward test was run")
    margin = view.started.job.limits.reward_margin if view.started else None
    blocks = [block for test in view.reward_tests for block in _blocks(test, margin)]
    return Shown(takeaway=_takeaway(view.reward_tests[-1]), blocks=tuple(blocks))


def _takeaway(test: RewardTested) -> str:
    verdict = _reward_verdict(test)
    if verdict is None:
        return f"{count_text(len(test.baseline_S), 'seed pair')}, no verdict"
    seen = f": {estimate_text(verdict.measured)}" if verdict.measured else ""
    return f"{verdict.judgement} on {count_text(len(test.baseline_S), 'seed pair')}{seen}"


def _reward_verdict(test: RewardTested) -> Verdict | None:
    return next((verdict for verdict in test.verdicts if verdict.guard.startswith("reward")), None)


def _blocks(test: RewardTested, margin: float | None) -> list[Block]:
    blocks: list[Block] = [Figures(figures=_figures(test, margin)), _dots(test), _table(test)]
    return blocks


def _figures(test: RewardTested, margin: float | None) -> tuple[Figure, ...]:
    verdict = _reward_verdict(test)
    gain = _mean_difference(test.baseline_S, test.start_S)
    figures = [Figure(label="baseline's own gain", cell=number(gain))]
    if margin is not None:
        limit = "largest acceptable fall, your limit"
        figures.append(Figure(label="your margin", cell=words(f"{margin:g}", limit)))
    if verdict is None:
        figures.append(
            Figure(label="candidate - baseline", cell=number(_mean_difference(test.candidate_S, test.baseline_S)))
        )
        return tuple(figures)
    figures += [
        Figure(label=verdict.guard, cell=judgement(verdict.judgement)),
        Figure(label="measured by the guard", cell=number(verdict.measured)),
        Figure(label="smallest drop it could have seen", cell=number(verdict.detectable, missing="not stated")),
    ]
    return tuple(figures)


def _mean_difference(new_S: Sequence[float], old_S: Sequence[float]) -> Estimate:
    diff_S = [new - old for new, old in zip(new_S, old_S, strict=False)]
    return derived(fmean(diff_S) if diff_S else math.nan, "1", n=len(diff_S), note="mean over seeds, accuracy")


def _dots(test: RewardTested) -> Ranges:
    rows = tuple(
        RangeRow(
            label=f"seed pair {index + 1}",
            marks=tuple(
                Mark(series=name, estimate=measured(value, "1")) for name, value in zip(SERIES, row, strict=True)
            ),
        )
        for index, row in enumerate(_seeds(test))
    )
    caption = f"Held-out accuracy per seed pair (measured), candidate {test.signature}: start and end of both runs"
    return Ranges(caption=caption, unit="1", series=SERIES, rows=rows)


def _seeds(test: RewardTested) -> list[tuple[float, float, float]]:
    return list(zip(test.start_S, test.baseline_S, test.candidate_S, strict=False))


def _table(test: RewardTested) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for index, (start, base, cand) in enumerate(_seeds(test)):
        rows.append(
            (
                words(str(index + 1)),
                number(measured(start, "1")),
                number(measured(base, "1")),
                number(measured(cand, "1")),
                number(derived(cand - base, "1")),
                number(_nth(test.baseline_truncated_S, index)),
                number(_nth(test.candidate_truncated_S, index)),
            )
        )
    heads = (
        numbers("seed pair"),
        numbers("start"),
        numbers("baseline"),
        numbers("candidate"),
        numbers("difference"),
        numbers("baseline truncated"),
        numbers("candidate truncated"),
    )
    return Table(caption="Held-out accuracy, seed by seed", columns=heads, rows=tuple(rows))


def _nth(truncated_S: Sequence[float], index: int) -> Estimate | None:
    return measured(truncated_S[index], "frac") if index < len(truncated_S) else None
