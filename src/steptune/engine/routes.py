"""Router replay: the experts each position chose, recorded in the rollout and repeated in the trainer.

::

    rollout: forward --RouteTape()--> RolloutBatch.routes_BLJk --> trainer: RouteTape.replaying() --> forward

A router's near-ties fall differently under other kernels and number formats, and one other expert moves a log-prob
far more than rounding does. Replaying the rollout's choices in the trainer takes that out of the gap (R3,
https://arxiv.org/abs/2510.11370). Only the choice is replayed: the gate values are the trainer's own, so the
router still learns. The surprises: recompute runs a layer a second time, so a recording is kept by layer and the
last one wins; and a position nobody recorded (padding, a row's last token) is left to the trainer's own router.

Shape letters: N positions (flattened), B rows, L token of a joined row, J layer, k chosen experts.
"""

from typing import final

import torch
from torch import Tensor

from steptune.core.model import ExpertFields

NOT_RECORDED = -1
"""Stands for the experts of a position that was not computed in the recorded forward."""


@final
class RouteTape:
    """Expert choices of one forward, by layer. Made empty it records; made from choices it replays them."""

    def __init__(self, choices: dict[int, Tensor] | None = None) -> None:
        """``choices``: int64 [N, k] by layer, of exactly the positions that will be fed; None records."""
        self.choices = {} if choices is None else choices
        self.is_replay = choices is not None
        self._same = dict[int, tuple[Tensor, Tensor]]()
        """By layer, of a replay: recorded experts that the router would have chosen too, and all recorded ones."""

    @staticmethod
    def replaying(choice_NJk: Tensor) -> "RouteTape":
        """Return the tape that replays the choices of all layers."""
        return RouteTape(dict(enumerate(choice_NJk.long().unbind(1))))

    def choose(self, layer: int, expert_Nk: Tensor) -> Tensor:
        """Return the experts to use in ``layer``: the router's own, noted down, or the recorded ones."""
        if self.is_replay:
            recorded_Nk = self.choices[layer]
            is_recorded_Nk = recorded_Nk != NOT_RECORDED
            is_same_Nk = (recorded_Nk[:, :, None] == expert_Nk[:, None, :]).any(-1) & is_recorded_Nk
            self._same[layer] = is_same_Nk.sum(), is_recorded_Nk.sum()
            return torch.where(recorded_Nk == NOT_RECORDED, expert_Nk, recorded_Nk)
        self.choices[layer] = expert_Nk.detach()
        return expert_Nk

    def agreement(self) -> Tensor | None:
        """Return int64 [2] of a replay: recorded experts that the router chose itself, and all; None if none ran."""
        if not self._same:
            return None
        return torch.stack([torch.stack(counts) for counts in self._same.values()]).sum(0)


def no_routes(spec: ExpertFields, num_rows: int, max_len: int, device: torch.device) -> Tensor:
    """Return a table of choices [B, L, J, k] in which nothing is recorded: 2 bytes a choice."""
    shape = (num_rows, max_len, spec.num_layers, spec.top_k)
    return torch.full(shape, NOT_RECORDED, dtype=torch.int16, device=device)


def write_routes(routes_BLJk: Tensor, tape: RouteTape, row: Tensor, position: Tensor) -> None:
    """Book what one forward chose; ``row`` and ``position`` together have the shape of the tokens fed."""
    choice_NJk = torch.stack([tape.choices[layer] for layer in sorted(tape.choices)], dim=1)
    fed = torch.broadcast_shapes(row.shape, position.shape)
    routes_BLJk[row, position] = choice_NJk.view(*fed, *choice_NJk.shape[1:]).to(torch.int16)
