"""How likely a change is to pass where earlier ones died or failed. Pure.

Every failed trial of one cause accuses a group of moves, and some move of each group is guilty. What explains all
groups with few moves is likelier than what takes many::

    {A B C D} died, {B D} died, {C D} died:    D alone explains it, or B and C together, or ...
                                               each further culprit is CULPRIT_ODDS times as likely

So two deaths that share one move point at it, where halving each group by itself would try that move again and again.
Sets are minimal: none holds a move that it could do without. Guilt of *moves* is a model: where memory dies of the sum
of all, the moves are cleared one after the other, and the group with them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import final

from steptune.core.knob import KnobValue

Moves = frozenset[tuple[str, KnobValue]]
"""Knob and new value of moves."""

NOBODY: Moves = frozenset()

CULPRIT_ODDS = 0.05
"""Odds of one more guilty move. Prior: about one move in twenty kills a run or breaks a guard."""

MAX_CULPRITS = 3
"""Guilty moves at most that explain all groups of a cause, unless more are needed."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Suspicion:
    """What may be guilty, by cause: ``Suspicion.of([[{A, B}], [{C, D}, {D, E}]])``."""

    causes: tuple[tuple[tuple[Moves, float], ...], ...]
    """Sets of culprits with their chance, which add up to 1 for every cause."""
    accused: Moves
    """Every move that may be guilty."""
    _known: dict[Moves, float] = field(default_factory=dict[Moves, float])

    @classmethod
    def of(cls, groups_by_cause: Sequence[Sequence[Moves]]) -> "Suspicion":
        """Return what the accused groups, none of them empty, say; one sequence of groups for every cause."""
        causes = tuple(tuple(_weighed(groups)) for groups in groups_by_cause if groups)
        return cls(causes=causes, accused=NOBODY.union(*(culprits for sets in causes for culprits, _ in sets)))

    def pass_chance(self, moves: Moves) -> float:
        """Return the chance that a trial of ``moves`` fails of nothing that is known to have failed."""
        accused = moves & self.accused
        if accused not in self._known:
            chance = 1.0
            for sets in self.causes:
                chance *= sum(weight for culprits, weight in sets if culprits.isdisjoint(accused))
            self._known[accused] = chance
        return self._known[accused]


def _weighed(groups: Sequence[Moves]) -> Iterator[tuple[Moves, float]]:
    sets = _explanations(groups)
    total = sum(CULPRIT_ODDS ** len(culprits) for culprits in sets)
    return ((culprits, CULPRIT_ODDS ** len(culprits) / total) for culprits in sets)


def _explanations(groups: Sequence[Moves]) -> list[Moves]:
    """Return the minimal sets of moves that meet every group, smallest first."""
    accused = sorted(NOBODY.union(*groups), key=repr)
    found: list[Moves] = []
    for size in range(1, len(groups) + 1):
        if size > MAX_CULPRITS and found:
            break
        for chosen in map(frozenset[tuple[str, KnobValue]], combinations(accused, size)):
            if all(chosen & group for group in groups) and not any(smaller <= chosen for smaller in found):
                found.append(chosen)
    return found
