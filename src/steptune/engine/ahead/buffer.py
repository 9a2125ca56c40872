"""Finished groups between the rollout and the trainer, first in, first out, and what became of every one. Pure.

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
        self.num_groups = {"generated": 0, "trained": 0, "dropped": 0}
        self.num_tokens = {"generated": 0, "trained": 0, "dropped": 0}

    @property
    def num_gone(self) -> int:
        """Groups trained on or dropped: the producer's measure of how far it may run ahead."""
        return self.num_groups["trained"] + self.num_groups["dropped"]

    def put(self, groups: Iterable[G]) -> None:
        """Add finished groups at the end."""
        for group in groups:
            self.waiting.append(group)
            self._count("generated", group)

    def drop_old(self, trainer_version: int) -> int:
        """Drop every waiting group that is too old for the trainer's weights of now; return how many."""
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
        buffered = {"groups": len(self.waiting), "tokens": sum(group.num_tokens for group in self.waiting)}
        return QueueStats(
            groups=QueueCount(**self.num_groups, buffered=buffered["groups"]),
            tokens=QueueCount(**self.num_tokens, buffered=buffered["tokens"]),
            lag_mean=lag_mean,
        )

    def _count(self, what: str, group: G) -> None:
        self.num_groups[what] += 1
        self.num_tokens[what] += group.num_tokens
