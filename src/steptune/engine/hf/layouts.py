"""How one of our tensors lies in a file: mostly its parts' rows one after another, in Qwen3.5 in three more ways.

The surprise is the zero-centred norm: the file holds w where the model scales by 1 + w, ours holds the scale itself.
Saved weights of ours come back exactly (1 + w is exact in both directions between 0.5 and 2); those of others are
rounded once, which in bf16 is as coarse as bf16 is near 1, so load them in float32.

Shape letters: H query head, E head dim, D model, C channels, K positions of the convolution.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

Shape = tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """Both directions between one of our tensors and its parts in a file."""

    join: Callable[[Sequence[Tensor]], Tensor]
    """Parts of a file, in a recipe's order -> our tensor."""
    split: Callable[[Tensor, Sequence[Shape]], Sequence[Tensor]]
    """Our tensor and the parts' shapes -> parts."""


def _split_rows(whole: Tensor, shapes: Sequence[Shape]) -> Sequence[Tensor]:
    pieces: tuple[Tensor, ...] = torch.split(whole, [shape[0] for shape in shapes])
    return pieces


ROWS = Layout(join=lambda parts: torch.cat(list(parts)), split=_split_rows)
"""Our rows are the parts' rows, one part after another."""

ZERO_CENTRED = Layout(join=lambda parts: parts[0].float() + 1, split=lambda whole, _: [whole - 1])
"""One vector: the file has how far each scale of a norm is from 1."""

CONVOLUTION = Layout(join=lambda parts: parts[0].squeeze(1).clone(), split=lambda whole, _: [whole.unsqueeze(1)])
"""One tensor [C, 1, K] in the file, torch's depthwise convolution; [C, K] here."""


def gated_queries(num_heads: int, head_width: int) -> Layout:
    """Return the layout of a gated attention's inputs.

    The file's first part has, head by head, a query and its gate; ours has all queries, keys, values, then all gates.
    """
    pairs, rows = (num_heads, 2, head_width), num_heads * head_width

    def join(parts: Sequence[Tensor]) -> Tensor:
        query_HE, gate_HE = parts[0].unflatten(0, pairs).unbind(1)
        return torch.cat((query_HE.flatten(0, 1), *parts[1:], gate_HE.flatten(0, 1)))

    def split(whole: Tensor, shapes: Sequence[Shape]) -> Sequence[Tensor]:
        query, *between, gate = torch.split(whole, [rows, *(shape[0] for shape in shapes[1:]), rows])
        both = torch.stack([x.unflatten(0, (num_heads, head_width)) for x in (query, gate)], dim=1)
        return [both.flatten(0, 2), *between]

    return Layout(join=join, split=split)
