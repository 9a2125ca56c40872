"""Router replay: the experts each position chose, recorded in one forward and repeated in another.

A router's near-ties fall differently under other kernels, and one other expert moves a log-prob far more than
rounding does. Replaying the rollout's choices in the trainer takes that out of the gap (R3,
https://arxiv.org/abs/2510.11370). Only the choice is replayed: the gate values are the trainer's own, so the
router still learns. The surprise: recompute runs a layer a second time, so a recording is kept by layer and
the last one wins.

Shape letters: N positions (flattened), k chosen experts.
"""

from typing import final

from torch import Tensor


@final
class RouteTape:
    """Expert choices of one forward, by layer. Made empty it records; made from choices it replays them."""

    def __init__(self, choices: dict[int, Tensor] | None = None) -> None:
        """``choices``: int64 [N, k] by layer, of exactly the positions that will be fed; None records."""
        self.choices = {} if choices is None else choices
        self.is_replay = choices is not None

    def choose(self, layer: int, expert_Nk: Tensor) -> Tensor:
        """Return the experts to use in ``layer``: the router's own, noted down, or the recorded ones."""
        if self.is_replay:
            return self.choices[layer]
        self.choices[layer] = expert_Nk.detach()
        return expert_Nk
