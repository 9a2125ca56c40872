"""Which rows of a published job are compared, and which pairs of them: near-duplicates once, other jobs never.

Surprise: the rows of one group are not all comparable. Of rows without a known difference one is kept (quality first,
then the later one); pairs that changed the algorithm or whose answers drifted in length are counted and left out.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import final

from steptune.published.levers import PairKind, difference
from steptune.published.public_run import PublicRun
from steptune.published.run_checks import lengths_drifted
from steptune.published.split import Side

SCORED_QUALITIES = ("A", "B")
"""Quality C is for sanity only."""

NEAR_DUPLICATES = (PairKind.REPEAT, PairKind.RELEASE, PairKind.SITE, PairKind.UNCLEAR)
"""Pairs of which one row is kept."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """One row forecast from another: ``Pair(base=..., other=..., kind=STRUCTURAL, num_levers=2)``."""

    base: PublicRun
    other: PublicRun
    kind: PairKind
    num_levers: int

    @property
    def log_ratio(self) -> float:
        """Natural logarithm of other / base step time."""
        return math.log(step_of(self.other) / step_of(self.base))


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """The compared rows of one job."""

    name: str
    side: Side
    owner: str
    runs: tuple[PublicRun, ...]
    pairs: tuple[Pair, ...]
    """Ordered pairs that differ in structure or in kernels alone."""
    num_left_out: int
    """Ordered pairs left out: another algorithm, or drifted lengths."""


def step_of(run: PublicRun) -> float:
    """Return the step time of a row that `scorable_rows` let through."""
    assert run.step_time_s is not None, run.id
    return run.step_time_s


def scorable_rows(runs: Iterable[PublicRun], *, small_batch: bool = False) -> dict[str, list[PublicRun]]:
    """Return rows with a whole step and a job, by job, before near-duplicates are dropped."""
    groups: dict[str, list[PublicRun]] = defaultdict(list)
    for run in runs:
        whole = run.row_kind == "full_step" and run.step_time_s is not None and run.step_time_s > 0
        if whole and run.job_group and run.quality in SCORED_QUALITIES and run.is_small_batch is small_batch:
            groups[run.job_group].append(run)
    return dict(groups)


def scored_groups(runs: Sequence[PublicRun], *, small_batch: bool = False) -> tuple[Group, ...]:
    """Return the jobs with at least one pair, in name order."""
    rows = scorable_rows(runs, small_batch=small_batch)
    groups = (_group(name, distinct(members)) for name, members in sorted(rows.items()))
    return tuple(group for group in groups if group.pairs)


def distinct(runs: Sequence[PublicRun]) -> tuple[PublicRun, ...]:
    """Return the rows without near-duplicates, in their order: better quality first, then the later row."""
    order = sorted(range(len(runs)), key=lambda index: (runs[index].quality, -index))
    kept: list[int] = []
    for index in order:
        if all(difference(runs[index], runs[other]).kind not in NEAR_DUPLICATES for other in kept):
            kept.append(index)
    return tuple(runs[index] for index in sorted(kept))


def _group(name: str, runs: tuple[PublicRun, ...]) -> Group:
    pairs: list[Pair] = []
    left_out = 0
    for base, other in permutations(runs, 2):
        moved = difference(base, other)
        if moved.kind not in (PairKind.STRUCTURAL, PairKind.KERNEL) or lengths_drifted(base, other):
            left_out += 1
            continue
        pairs.append(Pair(base=base, other=other, kind=moved.kind, num_levers=moved.num_levers))
    first = runs[0]
    return Group(name=name, side=first.side, owner=first.owner, runs=runs, pairs=tuple(pairs), num_left_out=left_out)
