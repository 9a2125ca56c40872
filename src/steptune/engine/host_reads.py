"""Counts the places where the host waits for a tensor's values: each would be a stop of a CUDA stream.

Works on CPU too, where such a read costs nothing but is the same code, so that a test can say "none". Two modes
look at two levels: Python calls such as `tolist` never reach the operators, and the backward pass never
reaches Python.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, final

from torch._ops import OpOverload
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

READING_CALLS = frozenset({"tolist", "numpy", "__bool__", "__int__", "__float__", "__index__", "__array__", "item"})
"""Methods of `Tensor` that hand values to Python."""

READING_OPERATORS = frozenset(
    {"_local_scalar_dense", "nonzero", "bincount", "unique_dim", "_unique2", "masked_select", "is_nonzero", "equal"}
)
"""Operators whose value or output shape depends on a tensor's values."""


@final
class HostReads:
    """Context manager: ``with HostReads() as reads: ...``, then ``reads.counts``, by name."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._modes = (_Calls(self.counts), _Operators(self.counts))

    def __enter__(self) -> Self:
        for mode in self._modes:
            mode.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for mode in reversed(self._modes):
            mode.__exit__(kind, error, at)

    @property
    def total(self) -> int:
        """Reads of any kind."""
        return sum(self.counts.values())


class _Calls(TorchFunctionMode):
    def __init__(self, counts: Counter[str]) -> None:
        super().__init__()
        self.counts = counts

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> object:
        name = getattr(func, "__name__", "")
        if name in READING_CALLS:
            self.counts[name] += 1
        return func(*args, **(kwargs or {}))


class _Operators(TorchDispatchMode):
    def __init__(self, counts: Counter[str]) -> None:
        super().__init__()
        self.counts = counts

    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> object:
        name = func.name().partition("::")[2].partition(".")[0]
        if name in READING_OPERATORS:
            self.counts[name] += 1
        return func(*args, **(kwargs or {}))
