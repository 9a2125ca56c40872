"""Solves the small symmetric positive definite systems of the shrunk regressions, without numpy."""

import math
from collections.abc import Sequence


def solve(matrix_SS: Sequence[Sequence[float]], rhs_S: Sequence[float]) -> list[float]:
    """Solve by elimination: such a system needs no pivoting, and S is a few trials or effects."""
    rows = [[*row, rhs] for row, rhs in zip(matrix_SS, rhs_S, strict=True)]
    for i, pivot in enumerate(rows):
        for row in rows[i + 1 :]:
            scale = row[i] / pivot[i]
            if scale:
                row[i:] = [x - scale * p for x, p in zip(row[i:], pivot[i:], strict=True)]
    solution_S = [0.0] * len(rows)
    for i in reversed(range(len(rows))):
        row = rows[i]
        solution_S[i] = (row[-1] - dot(row[i + 1 : -1], solution_S[i + 1 :])) / row[i]
    return solution_S


def dot(a: Sequence[float], b: Sequence[float]) -> float:
    """Return the sum of products, exactly rounded."""
    return math.fsum(x * y for x, y in zip(a, b, strict=True))
