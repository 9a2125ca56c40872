"""Which tokens end a completion. A model may have several: one ends a turn, another a document."""

from torch import Tensor


def is_end(token: Tensor, eos_ids: tuple[int, ...]) -> Tensor:
    """Return bool in the shape of ``token``, True where it is one of ``eos_ids`` (at least one)."""
    found = token == eos_ids[0]
    for other in eos_ids[1:]:
        found = found | (token == other)
    return found
