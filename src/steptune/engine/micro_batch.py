"""What one forward and backward computes: rows cut into runs of equal width, on one flat list of positions.

With a shared prefix a group's prompt stands once, before its completions, each of which continues it::

    prompts  p p p p | p p p p | p p p      runs of equal prompts, each attending to itself
    rows     c c c | c c c | c c | c        runs of equal (prompt, completion) lengths, each attending to
                                            its own prompt and then to itself

Pure Python, no torch: the trainer and the forecaster count with the same records.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple


class Run(NamedTuple):
    """Neighbouring rows of one width: ``Run(width=24, num_rows=7)`` covers 168 positions."""

    width: int
    num_rows: int
    prefix: int = 0
    """Positions of a shared prompt that every row of the run continues; 0: the rows stand alone."""

    @property
    def num_keys(self) -> int:
        """Positions that the run's rows attend to, a shared prompt counted once a row."""
        return (self.prefix + self.width) * self.num_rows


@dataclass(frozen=True, kw_only=True, slots=True)
class MicroBatch:
    """Rows of one forward and backward: ``MicroBatch(rows=(4, 0, 9), runs=(Run(24, 2), Run(17, 1)))``."""

    rows: tuple[int, ...]
    """Indices into the rollout batch, in the order they are laid out."""
    runs: tuple[Run, ...]
    """Widths of the shared prompts, then of the rows, in the order they are laid out."""
    prompts: tuple[int, ...] = ()
    """Rows whose prompt stands for their whole group's, laid out first; none: every row carries its own prompt."""
    prompt_of: tuple[int, ...] = ()
    """For every row, which of ``prompts`` it continues."""

    @property
    def num_positions(self) -> int:
        """Positions computed, padding included."""
        return sum(run.width * run.num_rows for run in self.runs)

    @property
    def num_keys(self) -> int:
        """Keys that attention reads; above `num_positions` by the shared prompts that are read more than once."""
        return sum(run.num_keys for run in self.runs)


def equal_runs(shapes: Sequence[tuple[int, int]]) -> tuple[Run, ...]:
    """Return neighbours of equal (width, prefix) as runs: ``[(5, 0), (5, 0), (3, 0)]`` gives two."""
    return tuple(Run(width, len(list(same)), prefix) for (width, prefix), same in groupby(shapes))
