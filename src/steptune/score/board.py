"""The public scoreboard as one record: every arm on every statistic, per side, beside the noise of the data.

Two arms are not models: the random pick stands in the choices, and the noise lines say how far the data lie from
themselves. Held-out statistics are those of the side `test`; `fit` is shown so that an over-fitted arm shows.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import final

from steptune.core.records import Record
from steptune.published.async_losers import AsyncLoser
from steptune.published.memory_cases import MemoryCase
from steptune.published.public_run import PublicRun
from steptune.published.split import Side
from steptune.score.choice import choices, order
from steptune.score.errors import (
    Errors,
    ModelFor,
    PairFilter,
    errors_alone,
    errors_calibrated,
    errors_left_out,
    errors_of_ratio,
    is_kernel,
    is_large,
    is_structural,
)
from steptune.score.groups import Group, scored_groups
from steptune.score.memory import MemoryModel, MemoryScore, case_sets, score_memory
from steptune.score.model import StepModel
from steptune.score.noise import NoiseLine, noise_lines
from steptune.score.peaks import PeakLine, PeakModel, peak_lines
from steptune.score.refusals import RefusalLine, refusal_lines
from steptune.score.signs import SignCall, async_pairs, score_signs
from steptune.score.spread import Bounds

BOTH_SIDES = "both"
"""Side of the sign test over all pairs: each side alone has few losers."""

EACH_LEFT_OUT = "each left out"
"""Side of a model that is fitted anew without each source."""

RATIO_STATISTICS: Mapping[str, PairFilter] = {
    "structural ratio": is_structural,
    "structural ratio, moves over 10 %": lambda pair: is_structural(pair) and is_large(pair),
    "structural ratio, one lever": lambda pair: is_structural(pair) and pair.num_levers == 1,
    "structural ratio, two levers": lambda pair: is_structural(pair) and pair.num_levers == 2,
    "structural ratio, three levers or more": lambda pair: is_structural(pair) and pair.num_levers > 2,
    "kernel or patch ratio": is_kernel,
}
"""Ratio statistics by name, in the order they are shown."""


@final
class ErrorLine(Record):
    """One arm's errors: ``ErrorLine(side="test", statistic="structural ratio", arm="no change", ...)``."""

    side: str
    statistic: str
    arm: str
    median_frac: float | None
    median_bounds_frac: Bounds | None
    """80 % interval of the median over jobs."""
    p90_frac: float | None
    num_groups: int
    num_answered: int
    num_asked: int


@final
class ChoiceLine(Record):
    """One arm's choices on one side."""

    side: str
    arm: str
    regret_frac: float | None
    regret_bounds_frac: Bounds | None
    random_regret_frac: float | None
    mean_rank: float | None
    order_right_frac: float | None
    num_choices: int
    num_groups: int


@final
class SignLine(Record):
    """One arm's calls of whether asynchronous is faster."""

    side: str
    arm: str
    balanced_frac: float | None
    """Mean share of faster and of other pairs called right; a refusal is wrong."""
    balanced_bounds_frac: Bounds | None
    plain_frac: float | None
    num_faster: int
    num_others: int
    num_refused: int


@final
class Board(Record):
    """The scoreboard of one day: what `steptune score --public --json` prints."""

    date: str
    """Day it was computed, ISO."""
    steptune_version: str
    num_groups: dict[str, int]
    """Jobs with a scored pair, by side."""
    num_pairs_left_out: dict[str, int]
    """Ordered pairs of another algorithm, of another framework or with drifted lengths, by side."""
    errors: tuple[ErrorLine, ...]
    refusals: tuple[RefusalLine, ...]
    """Why step models refused pairs of a job."""
    choices: tuple[ChoiceLine, ...]
    signs: tuple[SignLine, ...]
    memory: tuple[MemoryScore, ...]
    peaks: tuple[PeakLine, ...]
    noise: tuple[NoiseLine, ...]
    notes: tuple[str, ...] = ()
    """What must be known of an arm: its free parameters."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Arms:
    """What is scored: models by kind, each beside its trivial arms."""

    step: Sequence[StepModel]
    sign: Sequence[tuple[str, SignCall]]
    memory: Sequence[tuple[str, MemoryModel]]
    peaks: Sequence[tuple[str, PeakModel]]
    left_out: Mapping[str, ModelFor] = field(default_factory=dict)
    """Step models that are fitted anew without each source, by name."""
    notes: Sequence[str] = ()
    """What must be known of an arm."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PublicData:
    """What they are scored on."""

    runs: Sequence[PublicRun]
    losers: Sequence[AsyncLoser]
    cases: Sequence[MemoryCase]
    known_cases: Sequence[MemoryCase] = ()
    """Those of ``cases`` whose configuration is known well enough."""
    third_cases: Sequence[MemoryCase] = ()
    """Labelled when the memory model was final for the first time, and none of ``cases``."""
    fourth_cases: Sequence[MemoryCase] = ()
    """The headline: labelled before the model learnt from the third, and in no other set."""


def public_board(data: PublicData, arms: Arms, *, date: str, steptune_version: str) -> Board:
    """Return every statistic of every arm."""
    groups = scored_groups(data.runs)
    by_side = {str(side): [group for group in groups if group.side is side] for side in Side}
    errors = [line for side, members in by_side.items() for line in _error_lines(side, members, arms.step)]
    return Board(
        date=date,
        steptune_version=steptune_version,
        num_groups={side: len(members) for side, members in by_side.items()},
        num_pairs_left_out={side: sum(group.num_left_out for group in members) for side, members in by_side.items()},
        errors=(*errors, *_left_out_lines(groups, arms.left_out)),
        refusals=tuple(line for side, members in by_side.items() for line in refusal_lines(side, arms.step, members)),
        choices=tuple(_choice_line(side, arm, members) for side, members in by_side.items() for arm in arms.step),
        signs=tuple(_sign_lines(groups, data.losers, arms.sign)),
        memory=tuple(_memory_scores(data, arms.memory)),
        peaks=peak_lines(arms.peaks, data.cases),
        noise=noise_lines(data.runs),
        notes=tuple(arms.notes),
    )


def _error_lines(side: str, groups: Sequence[Group], arms: Sequence[StepModel]) -> Iterable[ErrorLine]:
    for arm in arms:
        yield _error_line(side, "stated configuration alone", arm.name, errors_alone(arm, groups))
    for arm in arms:
        yield _error_line(side, "calibrated on one row", arm.name, errors_calibrated(arm, groups))
    for statistic, counts in RATIO_STATISTICS.items():
        for arm in arms:
            yield _error_line(side, statistic, arm.name, errors_of_ratio(arm, groups, counts))


def _left_out_lines(groups: Sequence[Group], models: Mapping[str, ModelFor]) -> Iterable[ErrorLine]:
    for name, model_for in models.items():
        for statistic, counts in RATIO_STATISTICS.items():
            yield _error_line(EACH_LEFT_OUT, statistic, name, errors_left_out(model_for, groups, counts))


def _error_line(side: str, statistic: str, arm: str, errors: Errors) -> ErrorLine:
    return ErrorLine(
        side=side,
        statistic=statistic,
        arm=arm,
        median_frac=errors.median_frac,
        median_bounds_frac=errors.median_bounds_frac,
        p90_frac=errors.p90_frac,
        num_groups=errors.num_groups,
        num_answered=errors.num_answered,
        num_asked=errors.num_asked,
    )


def _choice_line(side: str, arm: StepModel, groups: Sequence[Group]) -> ChoiceLine:
    chosen = choices(arm, groups)
    return ChoiceLine(
        side=side,
        arm=arm.name,
        regret_frac=chosen.regret_frac,
        regret_bounds_frac=chosen.regret_bounds_frac,
        random_regret_frac=chosen.random_regret_frac,
        mean_rank=chosen.mean_rank,
        order_right_frac=order(arm, groups).right_frac,
        num_choices=chosen.num_choices,
        num_groups=chosen.num_groups,
    )


def _sign_lines(
    groups: Sequence[Group], losers: Sequence[AsyncLoser], arms: Sequence[tuple[str, SignCall]]
) -> Iterable[SignLine]:
    pairs = async_pairs(groups, losers)
    sides = {**{str(side): [pair for pair in pairs if pair.side is side] for side in Side}, BOTH_SIDES: pairs}
    for side, members in sides.items():
        for name, call in arms:
            signs = score_signs(call, members)
            yield SignLine(
                side=side,
                arm=name,
                balanced_frac=signs.balanced_frac,
                balanced_bounds_frac=signs.balanced_bounds_frac,
                plain_frac=signs.plain_frac,
                num_faster=signs.num_faster,
                num_others=signs.num_others,
                num_refused=signs.num_refused,
            )


def _memory_scores(data: PublicData, arms: Sequence[tuple[str, MemoryModel]]) -> Iterable[MemoryScore]:
    for what, members in case_sets(data.cases, data.known_cases, data.third_cases, data.fourth_cases).items():
        if members:
            for name, model in arms:
                yield score_memory(f"{name}: {what}", model, members)
