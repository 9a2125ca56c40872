"""Two live runs take turns in ABBA order, so that drift of the machine falls on both alike.

The first step of every block is dropped: caches are cold, and a run with a second process starts its block
with a batch that was finished during the pause.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from steptune.core.framework import Session
from steptune.core.trial import Observation

DROPPED_STEPS = 1
"""Leading steps of every block that are not counted."""

WARMUP_STEPS = 2
"""Steps after a launch that belong to no block: allocator and kernel caches, and the wait for a run that loads."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BlockPlan:
    """How much evidence a trial may gather: ``BlockPlan(max_pairs=4, kept_steps=3)``."""

    max_pairs: int
    """Pairs of blocks, one block per arm."""
    kept_steps: int
    """Counted steps per block."""

    @property
    def steps_per_block(self) -> int:
        """Steps run per block, dropped ones included."""
        return self.kept_steps + DROPPED_STEPS


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """One block of each arm, dropped steps left out."""

    incumbent: tuple[Observation, ...]
    candidate: tuple[Observation, ...]

    @property
    def ratio(self) -> float:
        """Candidate / incumbent mean step time of this pair."""
        return mean_step_s(self.candidate) / mean_step_s(self.incumbent)


def take_turns(incumbent: Session, candidate: Session, plan: BlockPlan) -> Iterator[Pair]:
    """Yield pair after pair: AB, BA, AB ... A consumer that stops iterating stops the trial."""
    for index in range(plan.max_pairs):
        if index % 2 == 0:
            first = run_block(incumbent, plan)
            yield Pair(incumbent=first, candidate=run_block(candidate, plan))
        else:
            first = run_block(candidate, plan)
            yield Pair(incumbent=run_block(incumbent, plan), candidate=first)


def warm_up(sessions: Sequence[Session]) -> None:
    """Run the first steps of freshly launched runs, one run after the other."""
    for session in sessions:
        session.run_steps(WARMUP_STEPS)


def run_block(session: Session, plan: BlockPlan) -> tuple[Observation, ...]:
    """Run one block and return its counted steps."""
    return tuple(session.run_steps(plan.steps_per_block)[DROPPED_STEPS:])


def mean_step_s(steps: Sequence[Observation]) -> float:
    """Return the mean step time in seconds."""
    return sum(step.step_time_s for step in steps) / len(steps)


def rotate_arms(sessions: Sequence[Session], rounds: int, plan: BlockPlan) -> list[list[tuple[Observation, ...]]]:
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
