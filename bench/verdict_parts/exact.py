"""Exact (Clopper-Pearson) interval of a share, and what a chunk of sessions adds up to."""

from collections.abc import Callable
from dataclasses import dataclass

from steptune.stats.student_t import incomplete_beta

BISECTIONS = 60
"""Halvings of 0..1: 1e-18, below double rounding."""


def clopper_pearson(hits: int, total: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return the exact two-sided interval of a share (Clopper & Pearson 1934)."""
    tail = (1.0 - confidence) / 2.0
    low = 0.0 if hits == 0 else _where(lambda p: incomplete_beta(hits, total - hits + 1, p) >= tail)
    high = 1.0 if hits == total else _where(lambda p: incomplete_beta(hits + 1, total - hits, p) >= 1.0 - tail)
    return low, high


def _where(is_past: Callable[[float], bool]) -> float:
    low, high = 0.0, 1.0
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if is_past(middle) else (middle, high)
    return 0.5 * (low + high)


@dataclass(frozen=True, kw_only=True)
class Target:
    """``Target(at_most=0.05, high_at_most=0.055)``: what a share, and where given its upper 95 % bound, must hold."""

    at_most: float = 1.0
    at_least: float = 0.0
    high_at_most: float = 1.0

    def holds(self, hits: int, total: int) -> bool:
        """Return whether the measured share meets the target."""
        share = hits / total
        return self.at_least <= share <= self.at_most and clopper_pearson(hits, total)[1] <= self.high_at_most

    def text(self) -> str:
        """Return the target as it is printed."""
        parts = [f"at most {self.at_most:.3g}"] if self.at_most < 1 else [f"at least {self.at_least:.3g}"]
        return ", ".join(parts + ([f"upper bound {self.high_at_most:.3g}"] if self.high_at_most < 1 else []))
