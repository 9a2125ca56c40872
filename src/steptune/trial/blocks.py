"""Two live runs take turns in ABBA order, so that drift of the machine falls on both alike.

Every block begins with a rehearsal that is not counted: caches are cold, and a run with a second process starts its
block with a batch that was finished during the pause. The surprise: a rehearsal is measured in seconds and repeats
the coming step. Dropping a number of steps instead left a 0.25 s step 15 to 30 % too long (its second step after a
pause was still slow), and every arm would then count other steps of the reference lengths.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from steptune.core.trial import Observation

REHEARSAL_S = 0.6
"""Seconds of rehearsal per block: steps of 0.25 s were slow in the first 0.5 s after a pause (2 cores, 2026-11-30)."""

WARMUP_STEPS = 2
"""Steps after a launch that belong to no block: allocator and kernel caches, and the wait for a run that loads."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BlockPlan:
    """How much evidence a trial may gather: ``BlockPlan(max_pairs=4, kept_steps=3)``."""

    max_pairs: int
    """Pairs of blocks, one block per arm."""
    kept_steps: int
    """Steps per block, rehearsal not included."""
    dropped_steps: int = 0
    """Steps before them that are run and not counted; see `settle`."""
    rehearse_s: float = REHEARSAL_S
    """Seconds of rehearsal before a block; none is needed where it follows another step at once."""


class RunsSteps(Protocol):
    """What a block is run on: a `core.framework.Session`, or a recorded one."""

    def run_steps(self, num_steps: int, *, rehearse_s: float = 0.0) -> list[Observation]:
        """Run steps; see `core.framework.Session.run_steps`."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """One block of each arm."""

    incumbent: tuple[Observation, ...]
    candidate: tuple[Observation, ...]

    @property
    def ratio(self) -> float:
        """Candidate / incumbent mean step time of this pair."""
        return mean_step_s(self.candidate) / mean_step_s(self.incumbent)


def take_turns(incumbent: RunsSteps, candidate: RunsSteps, plan: BlockPlan) -> Iterator[Pair]:
    """Yield pair after pair: AB, BA, AB ... A consumer that stops iterating stops the trial."""
    for index in range(plan.max_pairs):
        if index % 2 == 0:
            first = run_block(incumbent, plan)
            yield Pair(incumbent=first, candidate=run_block(candidate, plan))
        else:
            first = run_block(candidate, plan)
            yield Pair(incumbent=run_block(incumbent, plan), candidate=first)


def warm_up(sessions: Sequence[RunsSteps]) -> list[Observation]:
    """Run the first steps of freshly launched runs, one run after the other, and return them all."""
    return [step for session in sessions for step in session.run_steps(WARMUP_STEPS)]


def run_block(session: RunsSteps, plan: BlockPlan) -> tuple[Observation, ...]:
    """Run one block and return its counted steps."""
    steps = session.run_steps(plan.dropped_steps + plan.kept_steps, rehearse_s=plan.rehearse_s)
    return tuple(steps[plan.dropped_steps :])


def mean_step_s(steps: Sequence[Observation]) -> float:
    """Return the mean step time in seconds."""
    return sum(step.step_time_s for step in steps) / len(steps)


def rotate_arms(sessions: Sequence[RunsSteps], rounds: int, plan: BlockPlan) -> list[list[tuple[Observation, ...]]]:
    """Run one block of every arm per round, forwards then backwards; return blocks per arm.

    Used where more than two configurations are compared (waterfall, confirmation).
    """
    blocks: list[list[tuple[Observation, ...]]] = [[] for _ in sessions]
    for round_index in range(rounds):
        order = range(len(sessions)) if round_index % 2 == 0 else reversed(range(len(sessions)))
        for arm in order:
            blocks[arm].append(run_block(sessions[arm], plan))
    return blocks


KeepGoing = Callable[[Sequence[Pair]], str | None]
"""Looks at the pairs so far; a text stops the trial and becomes its cause."""
