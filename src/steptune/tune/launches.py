"""A confirmation as a sequence of fresh launches: launch, look, and stop when the answer is clear either way.

A launch is one observation. Its arms share the machine's slow spells, run there and back so that drift cancels, and
differ from the next launch's by everything that changes between launches; so the interval over launches holds both
kinds of noise without having to know either.
"""

import time
from collections.abc import Callable, Iterator, Sequence

from steptune.core.errors import BudgetSpentError
from steptune.core.estimate import Estimate, Source
from steptune.core.trial import Observation
from steptune.decide.final import judge_speedup
from steptune.decide.gain import Gain
from steptune.stats.looks import CONFIRM_LOOKS, repeated_ratio_interval
from steptune.trial.blocks import mean_step_s

Blocks = list[list[tuple[Observation, ...]]]
"""Blocks by arm."""


def confirm_launches(
    launch: Callable[[int], Blocks],
    weights: Sequence[float],
    wall_left_s: Callable[[], float],
    clock: Callable[[], float] = time.monotonic,
) -> list[Blocks]:
    """Launch until first against last arm is settled, the looks are used up or the budget cannot pay another launch.

    The first `CONFIRM_LOOKS.first` launches are made in any case: fewer settle nothing. A later one that the budget
    cuts off does not count.

    Args:
        launch: runs one launch of all arms, baseline first, winner last; its argument counts from 0.
        weights: see `core.work.objective_weight`, by arm.
        wall_left_s: wall seconds that are left.
        clock: seconds.

    Raises:
        BudgetSpentError: the budget cut off one of the first launches.
    """
    launches: list[Blocks] = []
    while len(launches) < CONFIRM_LOOKS.last:
        before_s = clock()
        try:
            launches.append(launch(len(launches)))
        except BudgetSpentError:
            if len(launches) < CONFIRM_LOOKS.first:
                raise
            break
        if len(launches) < CONFIRM_LOOKS.first:
            continue
        is_settled = judge_speedup(launch_ratio(launches, 0, -1, weights)) is not Gain.CANNOT_TELL
        if is_settled or wall_left_s() < clock() - before_s:
            break
    return launches


def launch_ratio(launches: Sequence[Blocks], above: int, below: int, weights: Sequence[float]) -> Estimate:
    """Return above / below of two arms over the launches so far; swapping the arms gives exactly the inverse."""
    times = [
        [mean_step_s(list(steps_of([blocks], arm))) * weights[arm] for blocks in launches] for arm in (above, below)
    ]
    interval = repeated_ratio_interval(times[0], times[1], CONFIRM_LOOKS)
    return interval.estimate(unit="x", source=Source.MEASURED, note="over fresh launches")


def steps_of(launches: Sequence[Blocks], arm: int) -> Iterator[Observation]:
    """Yield one arm's steps of all launches, in order."""
    return (step for blocks in launches for block in blocks[arm] for step in block)
