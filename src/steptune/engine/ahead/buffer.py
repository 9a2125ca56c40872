"""Finished groups between the rollout and the trainer, first in, first out, and what became of every one. Pure.

Groups leave the rollout as they are complete and are trained on in the order of their places: a group that is early
waits for those before it, so a short one never overtakes a long one, and the place in the queue stays the age.

Groups and tokens are conserved: generated = trained + dropped + buffered, at any moment.
"""

from collections import deque
from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar, final

from steptune.core.trial import QueueCount, QueueStats
from steptune.engine.ahead.bound import AgeBound


class Aged(Protocol):
    """What the buffer must know of a group."""

    @property
    def number(self) -> int:
        """Its place in the queue."""
        ...

    @property
    def oldest_version(self) -> int:
        """Version of the weights that sampled its oldest token."""
        ...

    @property
    def num_tokens(self) -> int:
        """Completion tokens."""
        ...


G = TypeVar("G", bound=Aged)


@final
class GroupBuffer(Generic[G]):
    """Never longer than `AgeBound.capacity`, as long as the producer keeps to the bound."""

    def __init__(self, bound: AgeBound) -> None:
        self.bound = bound
        self.waiting: deque[G] = deque()
        """In the order of their places, none missing between."""
        self.early: dict[int, G] = {}
        """Groups that came before one of a smaller place."""
        self.num_groups = {"generated": 0, "trained": 0, "dropped": 0}
        self.num_tokens = {"generated": 0, "trained": 0, "dropped": 0}

    @property
    def num_gone(self) -> int:
        """Groups trained on or dropped: the producer's measure of how far it may run ahead."""
        return self.num_groups["trained"] + self.num_groups["dropped"]

    def put(self, groups: Iterable[G]) -> None:
        """Add complete groups, in any order."""
        for group in groups:
            assert group.number >= self.next_place, "a place came twice"
            self.early[group.number] = group
            self._count("generated", group)
        while self.next_place in self.early:
            self.waiting.append(self.early.pop(self.next_place))

    @property
    def next_place(self) -> int:
        """The first place that has not come in its turn."""
        return self.num_gone + len(self.waiting)

    def drop_old(self, trainer_version: int) -> int:
        """Drop every group in its turn that is too old for the trainer's weights of now; return how many."""
        kept: deque[G] = deque()
        for group in self.waiting:
            if self.bound.is_usable(group.oldest_version, trainer_version):
                kept.append(group)
            else:
                self._count("dropped", group)
        num_dropped = len(self.waiting) - len(kept)
        self.waiting = kept
        return num_dropped

    @property
    def is_enough(self) -> bool:
        """Whether a whole step's groups wait."""
        return len(self.waiting) >= self.bound.groups_per_step

    def peek(self) -> list[G]:
        """Return the coming step's groups and leave them where they are."""
        assert self.is_enough, "a step's groups are not there yet"
        return [self.waiting[i] for i in range(self.bound.groups_per_step)]

    def take(self) -> list[G]:
        """Remove and return the coming step's groups; they count as trained."""
        taken = self.peek()
        for group in taken:
            self.waiting.popleft()
            self._count("trained", group)
        return taken

    def stats(self, lag_mean: float) -> QueueStats:
        """Return the counts so far, with the mean age of the tokens just trained on."""
        held = [*self.waiting, *self.early.values()]
        buffered = {"groups": len(held), "tokens": sum(group.num_tokens for group in held)}
        return QueueStats(
            groups=QueueCount(**self.num_groups, buffered=buffered["groups"]),
            tokens=QueueCount(**self.num_tokens, buffered=buffered["tokens"]),
            lag_mean=lag_mean,
        )

    def _count(self, what: str, group: G) -> None:
        self.num_groups[what] += 1
        self.num_tokens[what] += group.num_tokens
