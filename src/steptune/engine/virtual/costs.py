"""What a piece of work costs, in CPU seconds of one core: injected into the cluster, measured by `measure`."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, final


class Costs(Protocol):
    """Prices of every piece, for a healthy device."""

    def decode_s(self, num_rows: int) -> float:
        """One decode iteration."""
        ...

    def prefill_s(self, num_tokens: int) -> float:
        """Prompt positions computed together."""
        ...

    def train_s(self, num_positions: int) -> float:
        """Forward and backward of one micro-batch."""
        ...

    def optimizer_s(self) -> float:
        """Clipping and one optimizer step."""
        ...


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class LinearCosts:
    """Straight lines: ``decode_s(n) = decode[0] + decode[1] * n``, and so on. For tests and what-if."""

    decode: tuple[float, float]
    prefill: tuple[float, float] = (0.0, 0.0)
    train: tuple[float, float] = (0.0, 0.0)
    optimizer: float = 0.0

    def decode_s(self, num_rows: int) -> float:
        """One decode iteration."""
        return self.decode[0] + self.decode[1] * num_rows

    def prefill_s(self, num_tokens: int) -> float:
        """Prompt positions computed together."""
        return self.prefill[0] + self.prefill[1] * num_tokens

    def train_s(self, num_positions: int) -> float:
        """Forward and backward of one micro-batch."""
        return self.train[0] + self.train[1] * num_positions

    def optimizer_s(self) -> float:
        """Clipping and one optimizer step."""
        return self.optimizer


Points = Sequence[tuple[float, float]]
"""(size, CPU seconds), sizes increasing, at least two."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuredCosts:
    """Lines between measured points, the last two continued; never below zero."""

    decode: Points
    prefill: Points
    train: Points
    optimizer: float

    def decode_s(self, num_rows: int) -> float:
        """One decode iteration."""
        return on_points(self.decode, num_rows)

    def prefill_s(self, num_tokens: int) -> float:
        """Prompt positions computed together."""
        return on_points(self.prefill, num_tokens)

    def train_s(self, num_positions: int) -> float:
        """Forward and backward of one micro-batch."""
        return on_points(self.train, num_positions)

    def optimizer_s(self) -> float:
        """Clipping and one optimizer step."""
        return self.optimizer


def on_points(points: Points, x: float) -> float:
    """Return the value at ``x``.

    >>> on_points([(1, 1.0), (3, 2.0)], 2), on_points([(1, 1.0), (3, 2.0)], 5)
    (1.5, 3.0)
    """
    right = min(max(bisect_right([p[0] for p in points], x), 1), len(points) - 1)
    (x0, y0), (x1, y1) = points[right - 1], points[right]
    value = y0 + (y1 - y0) * (x - x0) / (x1 - x0)
    # not `max(0.0, value)`: that would turn a NaN into a free operation
    return 0.0 if value < 0 else value
