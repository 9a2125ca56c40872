"""The fixed state of rows being decoded, for recurrent layers: the memory and the last inputs of the convolution.

It does not grow with the row, and cannot be cut either: what a row was at an earlier position is gone. A prompt that
is forked to a group is therefore prefilled to exactly where it is forked, and the states are copied. Surprise: a
prompt shorter than its batch is padded on the right, so its last positions must change nothing (beta and log-decay 0).

Shape letters: n rows, P prompt position, C channels, K convolution width, H heads, E key dim, V value dim.
"""

from typing import final

import torch
import torch.nn.functional as F
from torch import Tensor

from steptune.core.model import HybridFields
from steptune.engine.models.delta_rule import scan, step


@final
class StateCache:
    """States of ``num_slots`` rows, in the slots of the key/value cache beside it."""

    def __init__(self, spec: HybridFields, num_slots: int, device: torch.device) -> None:
        layers = [i for i in range(spec.num_layers) if not spec.has_full_attention(i)]
        self.row_of = {layer: row for row, layer in enumerate(layers)}
        memory = (len(layers), num_slots, spec.linear_value_heads, spec.linear_key_dim, spec.linear_value_dim)
        self.memory = torch.zeros(memory, device=device)
        self.tail = torch.zeros(len(layers), num_slots, spec.conv_width - 1, spec.conv_channels, device=device)

    def at_prompts(self, first_slot: int, lengths_n: Tensor, width: int) -> "PromptsRecur":
        """Return the `recur` that runs right-padded prompts and keeps their states from ``first_slot`` on."""
        return PromptsRecur(self, slice(first_slot, first_slot + len(lengths_n)), lengths_n, width)

    def after_prompts(self, first_slot: int, lengths_n: Tensor, width: int) -> "PromptsRecur":
        """Return the `recur` that runs right-padded tokens on from the states in the slots."""
        return PromptsRecur(self, slice(first_slot, first_slot + len(lengths_n)), lengths_n, width, is_fresh=False)

    def read(self, slot: int) -> tuple[Tensor, Tensor]:
        """Return a copy of one row's memory and tail."""
        return self.memory[:, slot].clone(), self.tail[:, slot].clone()

    def write(self, slot: int, states: tuple[Tensor, Tensor]) -> None:
        """Put a copy made by `read` back."""
        self.memory[:, slot], self.tail[:, slot] = states

    def empty(self, first_slot: int, num_rows: int) -> None:
        """Forget whoever was in these slots: their next rows have nothing to prefill."""
        self.memory[:, first_slot : first_slot + num_rows] = 0
        self.tail[:, first_slot : first_slot + num_rows] = 0

    def at_tokens(self, num_rows: int) -> "TokensRecur":
        """Return the `recur` of one new token per row in slots 0..n-1."""
        return TokensRecur(self, num_rows)

    def fork(self, source: "StateCache", rows_n: Tensor, first_slot: int) -> None:
        """Copy the states in ``source`` slots ``rows_n`` to the slots from ``first_slot`` on."""
        slots = slice(first_slot, first_slot + len(rows_n))
        self.memory[:, slots], self.tail[:, slots] = source.memory[:, rows_n], source.tail[:, rows_n]

    def move(self, source_n: Tensor, target_n: Tensor) -> None:
        """Copy some slots over others."""
        self.memory[:, target_n], self.tail[:, target_n] = self.memory[:, source_n], self.tail[:, source_n]


@final
class PromptsRecur:
    """Whole prompts from empty states, or what follows earlier tokens from the states these left."""

    def __init__(
        self, cache: StateCache, slots: slice, lengths_n: Tensor, width: int, *, is_fresh: bool = True
    ) -> None:
        self.cache, self.slots, self.is_fresh = cache, slots, is_fresh
        self.is_real_nP1 = (torch.arange(width, device=lengths_n.device) < lengths_n[:, None])[..., None]
        num_kept = cache.tail.shape[2]
        self.last_nK = lengths_n[:, None] + torch.arange(num_kept, device=lengths_n.device)

    def conv(self, layer: int, x_nPC: Tensor, weight_CK: Tensor) -> Tensor:
        """Return the causal depthwise convolution [n, P, C] and keep the last inputs of every prompt."""
        before = weight_CK.shape[1] - 1
        tail_nKC = self.cache.tail[self.cache.row_of[layer], self.slots]
        padded = F.pad(x_nPC, (0, 0, before, 0)) if self.is_fresh else torch.cat((tail_nKC.to(x_nPC.dtype), x_nPC), 1)
        index_nKC = self.last_nK[..., None].expand(-1, -1, x_nPC.shape[-1])
        self.cache.tail[self.cache.row_of[layer], self.slots] = padded.gather(1, index_nKC)
        width = x_nPC.shape[1]
        shifted = [padded[:, i : i + width] * weight_CK[:, i] for i in range(before + 1)]
        return torch.stack(shifted).sum(0)

    def scan(self, layer: int, q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, beta: Tensor) -> Tensor:
        """Return the gated delta rule's output [n, P, H, V] and keep the last state of every prompt."""
        begin = None if self.is_fresh else self.cache.memory[self.cache.row_of[layer], self.slots]
        out, state = scan(q, k, v, log_decay * self.is_real_nP1, beta * self.is_real_nP1, begin)
        self.cache.memory[self.cache.row_of[layer], self.slots] = state
        return out


@final
class TokensRecur:
    """One token per row, from the states it replaces."""

    def __init__(self, cache: StateCache, num_rows: int) -> None:
        self.cache, self.num_rows = cache, num_rows

    def conv(self, layer: int, x_nC: Tensor, weight_CK: Tensor) -> Tensor:
        """Return the convolution's output [n, C] at the new token."""
        tail = self.cache.tail[self.cache.row_of[layer], : self.num_rows]
        seen_nKC = torch.cat((tail, x_nC[:, None]), dim=1)
        tail.copy_(seen_nKC[:, 1:])
        return torch.einsum("nkc,ck->nc", seen_nKC, weight_CK)

    def scan(self, layer: int, q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, beta: Tensor) -> Tensor:
        """Return the gated delta rule's output [n, H, V] at the new token."""
        memory = self.cache.memory[self.cache.row_of[layer], : self.num_rows]
        out, state = step(q, k, v, log_decay, beta, memory)
        memory.copy_(state)
        return out
