"""A source of rollouts as the loop sees it, whichever process makes them."""

from dataclasses import dataclass
from typing import Any, Protocol

from steptune.core.arrival import Arrival
from steptune.core.profile import GapStats
from steptune.core.trial import QueueStats
from steptune.engine.events import Span
from steptune.engine.produce import Produced
from steptune.engine.types import RolloutBatch

SourceState = dict[str, Any]
"""What a source must remember to continue exactly: plain values and tensors, for `torch.save`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Supply:
    """What the loop got for one step."""

    produced: Produced
    spans: list[Span]
    """Spans of other processes only."""
    remote_wall_s: float | None
    """Seconds of the other process that belong to this step, the mean of several; None without one."""
    probe_gap: GapStats | None
    peak_memory_bytes: int | None
    """Of the other process, what it shares with the trainer not counted; None without one."""
    queue: QueueStats | None = None
    """Asynchronous runs and partial rollouts only."""
    num_remote: int = 1
    """Processes that `spans` are of: side by side, so that the role's seconds are their mean."""
    arrivals: tuple[Arrival, ...] = ()
    """What the hand-over before these rollouts brought; empty where nobody looked."""


class Source(Protocol):
    """Gives the coming step's rollouts."""

    def next(self) -> Supply:
        """Return the rollouts of the coming step, and order what is made ahead."""
        ...

    def rehearse(self) -> Supply:
        """Return rollouts of the coming step; they will be trained on and forgotten, and the step comes again."""
        ...

    def after_update(self, batch: RolloutBatch, *, is_kept: bool) -> None:
        """The trainer has new weights, learnt from ``batch``; ``is_kept`` is False for a rehearsal's."""
        ...

    def settle(self) -> None:
        """Let work in flight finish, so that a paused run uses no core."""
        ...

    def state(self) -> SourceState:
        """Settle, and return what a later process needs to continue exactly."""
        ...

    def load_state(self, state: SourceState) -> None:
        """Continue from what `state` returned. Before the first step only; the loop's counters are set already."""
        ...

    def close(self) -> None:
        """Stop every process of the source."""
        ...
