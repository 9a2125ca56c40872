"""Rows of `forecast_virtual`: kept in a file, so that a draw can be run in pieces, and summed up.

A row depends on its seed alone, so pieces run in any order are the same draw.
"""

import json
import math
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from steptune.forecast.cluster.lag import WITHIN

Row = dict[str, object]


@dataclass(kw_only=True)
class Rows:
    """Rows by seed, kept in a file so that a draw can be run in pieces."""

    path: Path | None
    budget_s: float
    known: dict[int, Row] = field(default_factory=dict[int, Row])

    def __post_init__(self) -> None:
        if self.path is not None and self.path.exists():
            read = (json.loads(line) for line in self.path.read_text().splitlines())
            self.known = {row["seed"]: row for row in read}

    def get(self, seed: int, make: Callable[[int], Row]) -> Row | None:
        """Return a row, made where it is not known; None where the budget is spent."""
        if seed in self.known:
            return self.known[seed]
        if time.process_time() >= self.budget_s:
            return None
        started_s = time.process_time()
        row = {**make(seed), "cpu_s": round(time.process_time() - started_s, 1)}
        self.known[seed] = row = json.loads(json.dumps(row))
        print(json.dumps({k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()}), flush=True)
        if self.path is not None:
            with self.path.open("a") as file:
                file.write(json.dumps(row) + "\n")
        return row


def summary(counts: list[Row], asyncs: list[Row]) -> Row:
    """Return what the issue asks for."""
    first, last = ([_part(row, name) for row in asyncs] for name in ("first", "last"))
    return {
        "device_counts": {k: spread(column(counts, k)) for k in ("error", "floor", "no_change", "by_devices")},
        "counts_within_8_percent": share(e <= 0.08 for e in column(counts, "error")),
        "counts_covered": share(bool(r["is_covered"]) for r in counts),
        "floors": {k: spread(column(asyncs, k)) for k in ("lag_floor", "mean_lag_floor")},
        "same_lengths": {k: spread(column(asyncs, k)) for k in ("error_same_lengths", "lag_error_same_lengths")},
        "not_held_at_bound": sum(not r["is_held_at_bound"] for r in asyncs),
        "first": queue_summary(first),
        "last": queue_summary(last),
        "covered_at_80_percent": share(bool(r["is_covered"]) for r in [*counts, *first]),
        "covered_at_80_percent_last": share(bool(r["is_covered"]) for r in [*counts, *last]),
    }


def queue_summary(rows: list[Row]) -> Row:
    """Return what one length of profile is worth."""
    told = [r for r in rows if r["is_told"]]
    inside = [r["lags_covered"] for r in rows]
    names = ("error", "error_of_own_rows", "lag_error", "mean_lag_error", "lag_half_width", "steps")
    return {
        **{k: spread(column(rows, k)) for k in names},
        "lags_within_0.05": share(e <= WITHIN for e in column(rows, "lag_error")),
        "told": share(bool(r["is_told"]) for r in rows),
        "lags_within_0.05_where_told": share(e <= WITHIN for e in column(told, "lag_error")),
        "mean_lags_within_0.15": share(e <= 0.15 for e in column(rows, "mean_lag_error")),
        "ratios_covered": share(bool(r["is_covered"]) for r in rows),
        "half_width": spread([_half_width(r["forecast_ratio"]) for r in rows]),
        "shares_covered": [sum(i[0] for i in inside), sum(i[1] for i in inside)],  # type: ignore[index]
        "sign_of_async_right": share(r["would_lose"][0] == r["would_lose"][1] for r in rows),  # type: ignore[index]
    }


def _part(row: Row, name: str) -> Row:
    part = row[name]
    assert isinstance(part, dict)
    return part


def _half_width(ratio: object) -> float:
    assert isinstance(ratio, list)
    low, _, high = ratio
    return math.sqrt(high / low) - 1


def column(rows: list[Row], name: str) -> list[float]:
    """Return one figure of every row."""
    return [float(str(r[name])) for r in rows]


def spread(values: list[float]) -> dict[str, float]:
    """Return median and worst; nothing of nothing."""
    return {"median": round(statistics.median(values), 4), "worst": round(max(values), 4)} if values else {}


def share(hits: Iterable[bool]) -> str:
    """Return how many of how many."""
    seen = list(hits)
    return f"{sum(seen)} of {len(seen)}"
