"""What the pieces of a stream cost: seconds of one iteration, one prefill, one taking of weights, one update."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class StreamCosts:
    """Seconds as the step's forecast has them, the other side at work included.

    Example: 4 ms for an iteration of any number of rows, half a second of training::

        StreamCosts(decode_s=lambda rows: 0.004, prefill_s=lambda positions: 0.0, load_s=0.02, group_s=0.001,
                    train_s=0.5, handover_s=0.01)
    """

    decode_s: Callable[[int], float]
    """Rows running -> one iteration."""
    prefill_s: Callable[[int], float]
    """Prompt positions computed at once -> that prefill."""
    load_s: float
    """A replica takes new weights."""
    group_s: float
    """What a complete group costs its replica beside decoding: rewards, waits."""
    train_s: float
    """The trainer's step, from the groups it takes to the last update."""
    handover_s: float
    """The trainer gives weights away."""
