"""Counts the bytes of tensors alive at once: a peak that depends on the arithmetic alone, not on an allocator or clock.

Every storage an operator makes counts from then until its last tensor is gone; what was made before does not. The
surprise: what an operator allocates and frees inside itself is not seen, so a kernel's own scratch space is missing.
"""

import weakref
from collections.abc import Callable
from typing import Any, final

from torch import Tensor, UntypedStorage
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter


@final
class LiveMemory(TorchDispatchMode):
    """``with LiveMemory() as memory: step()``, then ``memory.peak_bytes``."""

    def __init__(self) -> None:
        super().__init__()
        self.live_bytes = self.peak_bytes = 0
        self._bytes_of: dict[int, int] = {}

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Any,  # noqa: ANN401  torch's own signature
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401
        given = {_address(x) for x in tree_iter((args, kwargs)) if isinstance(x, Tensor)}
        out = func(*args, **(kwargs or {}))
        for x in tree_iter(out):
            if isinstance(x, Tensor) and _address(x) not in given and _address(x) not in self._bytes_of:
                self._add(x.untyped_storage())
        return out

    def _add(self, storage: UntypedStorage) -> None:
        address = storage._cdata  # pyright: ignore[reportPrivateUsage]  the storage's identity while it lives
        self._bytes_of[address] = storage.nbytes()
        self.live_bytes += storage.nbytes()
        self.peak_bytes = max(self.peak_bytes, self.live_bytes)
        weakref.finalize(storage, self._drop, address)

    def _drop(self, address: int) -> None:
        self.live_bytes -= self._bytes_of.pop(address)


def _address(x: Tensor) -> int:
    return x.untyped_storage()._cdata  # pyright: ignore[reportPrivateUsage]
