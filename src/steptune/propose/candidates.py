"""Every change worth forecasting: single moves and combinations that can run and keep the owner's limits.

All combinations are listed while they are few enough. Beyond that the list is cut where it hurts least: the
knobs that treat the largest bottlenecks are still combined in full, and each of those combinations is given
at most one move of the remaining knobs::

    knobs by what they treat   | layout  recompute  schedule  threads ... | handover  correction ... |
                               |<----------- all combinations ----------->|<---- at most one move -->|
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from math import prod

from steptune.core.bottleneck import Bottleneck
from steptune.core.change import Change, Move
from steptune.core.job import JobSpec
from steptune.core.knob import KnobSpec, Settings
from steptune.core.records import Record
from steptune.propose.make import make_change
from steptune.propose.space import Axis, axes

MAX_COMBINATIONS = 50_000
"""Combinations looked at, so that planning and ranking them takes seconds (tests/forecast/test_rank.py)."""


class Refusal(Record):
    """Why candidates fell: ``Refusal(reason="one_step_off needs max_staleness 1, got 0", count=96)``."""

    reason: str
    count: int


class Proposal(Record):
    """What may be tried.

    Example: 1,152 changes of 4,608 combinations; 3,456 refused, most because the threads exceed the cores.
    """

    changes: tuple[Change, ...]
    """Fewest moves first; the same inputs always give the same order."""
    num_combinations: int
    """Combinations looked at, the baseline itself excluded."""
    num_refused: int
    """Combinations with at least one conflict."""
    refusals: tuple[Refusal, ...]
    """Distinct reasons, most frequent first; a combination counts once for each of its reasons."""
    is_complete: bool
    """Whether every combination was looked at; False where the list was cut."""


def candidates(
    job: JobSpec,
    specs: tuple[KnobSpec, ...],
    baseline_settings: Settings,
    bottlenecks: Sequence[Bottleneck],
    conflicts: Callable[[Settings], tuple[str, ...]],
) -> Proposal:
    """List the changes of ``baseline_settings`` that may be tried.

    ``conflicts`` says why a configuration cannot run or breaks a limit. Pinned and disallowed knobs, and
    knobs that touch the algorithm, never move.

    Raises:
        JobError: `knobs.allow` or `knobs.pin` names a knob the framework does not have.
    """
    movable = axes(job.knobs, specs, baseline_settings, bottlenecks)
    by_name = {spec.name: spec for spec in specs}
    num_full = _num_combined_in_full(movable)
    allowed: list[Change] = []
    refused: Counter[str] = Counter()
    num_combinations = 0
    for moves in _combinations(movable, num_full):
        num_combinations += 1
        reasons = conflicts({**baseline_settings, **{move.knob: move.new for move in moves}})
        refused.update(set(reasons))
        if not reasons:
            allowed.append(make_change(moves, by_name, bottlenecks))
    return Proposal(
        changes=tuple(sorted(allowed, key=lambda change: len(change.moves))),
        num_combinations=num_combinations,
        num_refused=num_combinations - len(allowed),
        refusals=tuple(Refusal(reason=r, count=n) for r, n in sorted(refused.items(), key=lambda x: (-x[1], x[0]))),
        is_complete=num_full == len(movable),
    )


def _num_combined_in_full(movable: Sequence[Axis]) -> int:
    """Return how many leading knobs can be combined in full without passing MAX_COMBINATIONS."""
    for num_full in range(len(movable), 0, -1):
        full = prod(1 + len(axis.moves) for axis in movable[:num_full])
        if full * (1 + sum(len(axis.moves) for axis in movable[num_full:])) <= MAX_COMBINATIONS:
            return num_full
    return 0


def _combinations(movable: Sequence[Axis], num_full: int) -> Iterator[tuple[Move, ...]]:
    full = [(None, *axis.moves) for axis in movable[:num_full]]
    extra = (None, *(move for axis in movable[num_full:] for move in axis.moves))
    for choice in product(*full, extra):
        moves = tuple(move for move in choice if move is not None)
        if moves:
            yield moves
