"""What a replica of the rollout holds after a hand-over: every tensor's hash against the trainer's after the same cast.

A version number counts hand-overs and says nothing of what was handed over. The surprise: "did anything change" must be
asked twice. A lost optimizer step shows in the trainer's own bits; in a bf16 replica a small learning rate changes next
to nothing, lost step or not.

Costs about 1 ms for 16 MB a hash (`tensor_hash`), and one comparison of all elements.
"""

from collections.abc import Mapping
from typing import final

import torch
from torch import Tensor

from steptune.core.arrival import Arrival
from steptune.engine.rollout import RolloutEngine
from steptune.engine.tensor_hash import tensor_hash


@final
class ArrivalCheck:
    """Watches the hand-overs to one replica: `before` and `after` stand around each."""

    def __init__(self, engine: RolloutEngine, replica: int = 0) -> None:
        self.engine, self.replica = engine, replica
        self._version: int | None = None
        self._hashes = dict[str, int]()
        self._num_moved: int | None = None
        self._changed_frac: float | None = None

    def before(self, state: Mapping[str, Tensor], version: int) -> None:
        """Count what the hand-over of ``state`` is about to change."""
        if self._version is not None and version != self._version:
            self._changed_frac = changed_frac(self.engine.plain_tensors(), state)

    def after(self, state: Mapping[str, Tensor], version: int) -> Arrival:
        """Return what arrived. A version that is handed over again moves nothing: what was said of it stands."""
        hashes = {name: tensor_hash(tensor) for name, tensor in state.items()}
        if self._version is not None and version != self._version:
            self._num_moved = sum(hashes[name] != self._hashes.get(name) for name in hashes)
        self._version, self._hashes = version, hashes
        held = self.engine.tensor_hashes()
        wrong = [name for name, tensor in state.items() if held.get(name) != self._expected(hashes[name], tensor)]
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

    def _expected(self, own_hash: int, tensor: Tensor) -> int:
        """Return the hash of ``tensor`` as the replica must hold it; ``own_hash`` is that of its own bits."""
        if tensor.dtype == self.engine.dtype or not tensor.is_floating_point():
            return own_hash
        return tensor_hash(tensor.to(self.engine.dtype))


def changed_frac(held: Mapping[str, Tensor], state: Mapping[str, Tensor]) -> float | None:
    """Return the part of the elements of ``held`` that ``state`` changes once it is cast alike; None of nothing."""
    changed, total = 0, 0
    for name, tensor in held.items():
        if name in state:
            given = state[name].to(tensor.device, tensor.dtype)
            changed += int(torch.count_nonzero(given != tensor))
            total += tensor.numel()
    return changed / total if total else None
