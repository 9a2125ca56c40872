"""The noise of publishing: how far two rows of the same recipe lie apart, beside which every error must be read.

A forecaster cannot be better than the source is with itself. Rows of one step are left out: they show the spread
within a run, not between runs.
"""

from collections.abc import Sequence
from itertools import combinations
from typing import final

from steptune.core.records import Record
from steptune.published.levers import PairKind, difference
from steptune.published.public_run import PublicRun
from steptune.score.groups import scorable_rows, step_of
from steptune.score.quantiles import as_frac, equal_weight_quantile
from steptune.stats.forecast_error import log_ratio_errors

NOISE_KINDS = {
    PairKind.REPEAT: "the same recipe twice",
    PairKind.SITE: "the same recipe on two clusters",
    PairKind.RELEASE: "the same recipe in two releases (real gains included)",
}
"""Sorts of pair without a change of ours, in words."""


@final
class NoiseLine(Record):
    """One sort of noise: ``NoiseLine(what="the same recipe twice", median_frac=0.029, worst_frac=0.086, ...)``."""

    what: str
    median_frac: float | None
    """Jobs weighted equally."""
    worst_frac: float | None
    num_pairs: int
    num_groups: int


def noise_lines(runs: Sequence[PublicRun]) -> tuple[NoiseLine, ...]:
    """Return the noise of each sort, over all sides: nothing is fitted here."""
    apart: dict[PairKind, dict[str, list[float]]] = {kind: {} for kind in NOISE_KINDS}
    for name, members in scorable_rows(runs).items():
        several_steps = [run for run in members if run.steps_averaged != "1"]
        for a, b in combinations(several_steps, 2):
            kind = difference(a, b).kind
            if kind in apart:
                apart[kind].setdefault(name, []).extend(log_ratio_errors([step_of(a)], [step_of(b)]))
    return tuple(_line(what, apart[kind]) for kind, what in NOISE_KINDS.items())


def _line(what: str, errors: dict[str, list[float]]) -> NoiseLine:
    return NoiseLine(
        what=what,
        median_frac=as_frac(equal_weight_quantile(errors, 0.5)),
        worst_frac=as_frac(max((max(group) for group in errors.values()), default=None)),
        num_pairs=sum(map(len, errors.values())),
        num_groups=len(errors),
    )
