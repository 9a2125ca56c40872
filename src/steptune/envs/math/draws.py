"""Random integers that depend on a key alone: the same on every machine, Python version and process.

SplitMix64 (Steele, Lea and Flood 2014, https://doi.org/10.1145/2660193.2660195) over a counter.
`random.Random` is not used because its derived methods are not promised to stay the same.
"""

from collections.abc import Sequence
from typing import TypeVar, final

T = TypeVar("T")

MASK_64 = (1 << 64) - 1
"""Keeps Python integers in 64 bits."""

GOLDEN_GAMMA = 0x9E3779B97F4A7C15
"""SplitMix64's odd increment, 2**64 / golden ratio."""


def mix64(x: int) -> int:
    """Return SplitMix64's finaliser of ``x``: a bijection of 64-bit integers that looks random."""
    x &= MASK_64
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK_64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK_64
    return x ^ (x >> 31)


@final
class Draws:
    """An endless stream of integers: ``Draws(seed, stream, index).below(10)``."""

    def __init__(self, *key: int) -> None:
        self._state = 0
        for part in key:
            self._state = mix64(self._state + GOLDEN_GAMMA + part)

    def below(self, bound: int) -> int:
        """Return the next integer in 0..bound-1 (bias below bound / 2**64)."""
        self._state = (self._state + GOLDEN_GAMMA) & MASK_64
        return mix64(self._state) % bound

    def between(self, low: int, high: int) -> int:
        """Return the next integer in low..high, both included."""
        return low + self.below(high - low + 1)

    def choice(self, items: Sequence[T]) -> T:
        """Return one of ``items``, each equally likely."""
        return items[self.below(len(items))]
