"""Which replica makes which place of the queue. Pure.

::

    gone            handed out, not yet heard of                     not yet handed out
    |<- trained --->|<- replica 0, 1, 1, 0, ... of each its own ->|  (`AgeBound.capacity` beyond those gone)

The trainer hands places out, as far as the bound lets them be begun, each time it says where it is. So no replica asks
another what is free, and there is no lock that a killed one could leave behind. What a replica has not finished is its
load: one that is behind gets fewer places under `least_tokens`. The surprise: places are trained on in their order,
whoever made them, so that one slow replica holds all of them up once the bound is reached.
"""

from collections.abc import Callable, Container, Iterable
from typing import final

from steptune.engine.ahead.bound import AgeBound
from steptune.engine.routing import Rule, route


@final
class Dealer:
    """Remembers who makes what, until it is heard of."""

    def __init__(self, bound: AgeBound, *, num_replicas: int, rule: Rule, size_of: Callable[[int], float]) -> None:
        """``size_of``: what a place is expected to take, in any unit."""
        self.bound, self.size_of = bound, size_of
        self.rule: Rule = rule
        self.next_place = 0
        self.owner: dict[int, int] = {}
        """By place handed out and not heard of: the replica that makes it."""
        self._size: dict[int, float] = {}
        self._new: list[list[int]] = [[] for _ in range(num_replicas)]

    def deal(self, num_gone: int, made: Container[int]) -> None:
        """Hand out every place that may be begun with ``num_gone`` groups gone, but for those ``made`` already."""
        first, self.next_place = self.next_place, max(self.next_place, num_gone + self.bound.capacity)
        places = [place for place in range(first, self.next_place) if place not in made]
        sizes = [self.size_of(place) for place in places]
        for index, replica in route(self.rule, sizes, self._loads(), first % len(self._new)):
            place = places[index]
            self.owner[place], self._size[place] = replica, sizes[index]
            self._new[replica].append(place)

    def take(self, replica: int) -> tuple[int, ...]:
        """Return the places that a replica has not been told of, rising."""
        new, self._new[replica] = sorted(self._new[replica]), []
        return tuple(new)

    def hear(self, places: Iterable[int]) -> None:
        """These are made."""
        for place in places:
            del self.owner[place], self._size[place]

    def _loads(self) -> list[float]:
        loads = [0.0] * len(self._new)
        for place, replica in self.owner.items():
            loads[replica] += self._size[place]
        return loads
