"""What a replica of the rollout holds after a hand-over: every tensor's bits against the trainer's after the same cast.

A version number counts hand-overs and says nothing of what was handed over. The surprise: "did anything change" must be
asked twice. A lost optimizer step shows in the trainer's own bits; in a bf16 replica a small learning rate changes next
to nothing, lost step or not.

::

    trainer's tensors --hash-----------------------------> moved since the version before?
                      --channel (verified by that hash)--> the reader's copy --cast--> same bits as the replica's?

Hashed once on each side: what lies in one process is compared bit by bit, which is cheaper than two hashes.
"""

from collections.abc import Mapping
from typing import final

import numpy as np
import torch
from torch import Tensor

from steptune.core.arrival import Arrival
from steptune.engine.rollout import RolloutEngine
from steptune.engine.tensor_hash import tensor_hash

SAMPLED_ELEMENTS = 8192
"""Elements of a tensor whose change is counted at a hand-over, other rows each time: comparing all of them took as long
as copying them. Over all tensors of a model the fraction is known to better than 0.5 %."""

BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Integers by bytes: NaN is no number, but the same bits."""


@final
class ArrivalCheck:
    """Watches the hand-overs to one replica: `before` and `after` stand around each."""

    def __init__(self, engine: RolloutEngine, replica: int = 0) -> None:
        self.engine, self.replica = engine, replica
        self._version: int | None = None
        self._hashes: Mapping[str, int] = {}
        self._num_moved: int | None = None
        self._changed_frac: float | None = None

    def before(self, state: Mapping[str, Tensor], version: int) -> None:
        """Count what the hand-over of ``state`` is about to change."""
        if self._version is not None and version != self._version:
            self._changed_frac = changed_frac(self.engine.plain_tensors(), state, version)

    def after(self, state: Mapping[str, Tensor], version: int, hashes: Mapping[str, int] | None = None) -> Arrival:
        """Return what arrived. A version that is handed over again moves nothing: what was said of it stands.

        ``hashes`` are those of ``state`` where somebody has taken and verified them already.
        """
        if hashes is None:
            hashes = {name: tensor_hash(tensor) for name, tensor in state.items()}
        if self._version is not None and version != self._version:
            self._num_moved = sum(hashes[name] != self._hashes.get(name) for name in hashes)
        self._version, self._hashes = version, hashes
        wrong = self._wrong(state, hashes)
        return Arrival(
            replica=self.replica,
            version=self.engine.version,
            trainer_version=version,
            num_tensors=len(state),
            num_wrong=len(wrong),
            first_wrong=wrong[0] if wrong else "",
            num_moved=self._num_moved,
            changed_frac=self._changed_frac,
        )

    def _wrong(self, state: Mapping[str, Tensor], hashes: Mapping[str, int]) -> list[str]:
        """Return the tensors that the replica lacks or holds with other bits; what it packed is known by its hash."""
        held, packed = self.engine.held_tensors(), self.engine.packed_hashes()

        def is_held(name: str, tensor: Tensor) -> bool:
            if name in held:
                return same_bits(held[name], tensor)
            return packed.get(name) == self._cast_hash(tensor, hashes[name])

        return [name for name, tensor in state.items() if not is_held(name, tensor)]

    def _cast_hash(self, tensor: Tensor, own_hash: int) -> int:
        """Return the hash of ``tensor`` as it was when the replica packed it; ``own_hash`` is that of its own bits."""
        if tensor.dtype == self.engine.dtype or not tensor.is_floating_point():
            return own_hash
        return tensor_hash(tensor.to(self.engine.dtype))


def same_bits(held: Tensor, given: Tensor) -> bool:
    """Return whether ``held`` is ``given`` after the cast into its own format, to the last bit."""
    cast = given.to(held.device, held.dtype)
    if cast.data_ptr() == held.data_ptr() and cast.shape == held.shape:
        return True  # the trainer's own tensor
    if cast.shape != held.shape:
        return False
    bits = BITS[held.element_size()]
    ours, theirs = cast.detach().view(bits), held.detach().view(bits)
    if held.device.type != "cpu":
        return torch.equal(ours, theirs)
    return np.array_equal(ours.numpy(), theirs.numpy())  # a quarter of the time that `torch.equal` takes here


def changed_frac(held: Mapping[str, Tensor], state: Mapping[str, Tensor], version: int) -> float | None:
    """Return the part of the elements of ``held`` that ``state`` changes once it is cast alike; None of nothing.

    Of a large tensor some rows are looked at, by ``version`` other ones.
    """
    changed, total = 0, 0
    for name, tensor in held.items():
        if name in state:
            old, new = (_some_rows(x, version) for x in (tensor, state[name]))
            changed += int(torch.count_nonzero(new.to(old.device, old.dtype) != old))
            total += old.numel()
    return changed / total if total else None


def _some_rows(tensor: Tensor, version: int) -> Tensor:
    if tensor.numel() <= SAMPLED_ELEMENTS:
        return tensor
    num_rows = max(1, SAMPLED_ELEMENTS * len(tensor) // tensor.numel())
    first = version * num_rows % (len(tensor) - num_rows + 1)
    return tensor[first : first + num_rows]
