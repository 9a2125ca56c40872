"""How far off is a decode forecast from three points, over the measured rows that `aiconfigurator-core` ships?

`python bench/decode_rows.py` prints a table and writes `bench/results/decode_rows.json`; `--quick` scores the built-in
arms alone and writes nothing. It needs `pip install 'steptune[aiconfigurator]'`, on Linux with an x86-64 processor.

A group is (engine, device, model, precision) and weighs one, whatever its number of rows. Three points by rule
(`decode_rows_data.three_points`, frozen before any error was seen), every other configuration forecast. Priors were
fitted on the half of the groups that a hash names; the other half is reported apart. Targets: a median of at most
12 %, of 9 % in the points' own layout, pairs that lie over 15 % apart ordered right in 93 %, at most 15 % refused.
"""

import argparse
import json
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from decode_rows_aic import AicArms  # noqa: E402
from decode_rows_arms import Arm, line, mechanism, roofline, with_interval  # noqa: E402
from decode_rows_data import Group, Measured, package_folder, read_rows, three_points  # noqa: E402
from steptune.forecast.decode.aiconfigurator import package_version  # noqa: E402
from steptune.store.files import replace  # noqa: E402

APART = math.log(1.15)
TARGETS = {"median": 0.12, "same_layout": 0.09, "pairs_right": 0.93, "refused": 0.15}
Answer = tuple[Measured, float | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Answers:
    """What an arm said of one group."""

    group: Group
    points: Sequence[Measured]
    rows: Sequence[Answer]
    impossible: int

    @property
    def refused(self) -> float:
        """Share of the group's configurations that got no forecast."""
        none = self.impossible + sum(seconds is None for _, seconds in self.rows)
        return none / (self.impossible + len(self.rows))

    @property
    def given(self) -> list[tuple[Measured, float]]:
        """Rows with a forecast."""
        return [(row, seconds) for row, seconds in self.rows if seconds is not None]


def answers(rows: dict[Group, list[Measured]], impossible: dict[Group, int], arm: Arm) -> list[Answers]:
    """Ask an arm for every configuration beside the three points; without points all are refused."""
    found: list[Answers] = []
    for group in sorted({*rows, *impossible}):
        own = rows.get(group, [])
        points = three_points(own) if own else None
        if points is None:
            asked: list[Answer] = [(row, None) for row in own]
        else:
            asked = [(row, arm(group, points, row.config)) for row in own if row not in points]
        found.append(Answers(group=group, points=points or (), rows=asked, impossible=impossible.get(group, 0)))
    return found


def score(found: Sequence[Answers]) -> dict[str, float | int | None]:
    """Return the figures of some groups."""
    same = _errors(found, lambda one, row: row.config.layout == one.points[0].config.layout)
    other = _errors(found, lambda one, row: row.config.layout != one.points[0].config.layout)
    every = _errors(found, lambda one, row: True)
    return {
        "groups": len(every),
        "rows": sum(map(len, every)),
        "median": weighted_quantile(every, 0.5),
        "p90": weighted_quantile(every, 0.9),
        "same_layout": weighted_quantile(same, 0.5),
        "other_layout": weighted_quantile(other, 0.5),
        "pairs_right": _mean([ordered_right(one.given) for one in found]),
        "layout_pairs_right": _mean([ordered_right(one.given, is_same_work=True) for one in found]),
        "refused": _mean([one.refused for one in found]),
        "refused_by_row": sum(one.refused * (len(one.rows) + one.impossible) for one in found)
        / sum(len(one.rows) + one.impossible for one in found),
    }


def weighted_quantile(groups: Sequence[Sequence[float]], p: float) -> float | None:
    """Return a quantile over all values, those of one group together weighing one."""
    pairs = sorted((value, 1 / len(own)) for own in groups for value in own)
    whole, seen = math.fsum(weight for _, weight in pairs), 0.0
    for value, weight in pairs:
        seen += weight
        if seen >= p * whole:
            return value
    return None


def ordered_right(given: Sequence[tuple[Measured, float]], *, is_same_work: bool = False) -> float | None:
    """Return the share of pairs over 15 % apart whose order is right; ``is_same_work`` takes layouts of one traffic."""
    right = total = 0
    for i, (row, seconds) in enumerate(given):
        for other, other_seconds in given[i + 1 :]:
            truth = math.log(row.seconds / other.seconds)
            if abs(truth) <= APART or (is_same_work and _work(row) != _work(other)):
                continue
            total += 1
            right += truth * math.log(seconds / other_seconds) > 0
    return right / total if total else None


def coverage(found: Sequence[Answers]) -> dict[str, float | None]:
    """Return how often the 80 % interval holds the measured value, and its median half-width."""
    inside: list[float] = []
    widths: list[list[float]] = []
    for one in found:
        asked = [(row, with_interval(one.group, one.points, row.config)) for row, _ in one.given]
        known = [(row.seconds, low, high) for row, (_, low, high) in ((r, f) for r, f in asked if f is not None)]
        if known:
            inside.append(sum(low <= seconds <= high for seconds, low, high in known) / len(known))
            widths.append([math.sqrt(high / low) - 1 for _, low, high in known])
    return {"inside": _mean(inside), "half_width": weighted_quantile(widths, 0.5)}


def noise(rows: dict[Group, list[Measured]]) -> dict[str, float | int | None]:
    """Return the spread of configurations that were measured more than once (other dates and engine versions)."""
    spreads = sorted(max(m.repeats) / min(m.repeats) - 1 for own in rows.values() for m in own if len(m.repeats) > 1)
    return {
        "configurations": len(spreads),
        "median_spread": spreads[len(spreads) // 2] if spreads else None,
        "p90_spread": spreads[int(0.9 * len(spreads))] if spreads else None,
    }


def _errors(found: Sequence[Answers], wanted: Callable[[Answers, Measured], bool]) -> list[list[float]]:
    every = [[abs(seconds / row.seconds - 1) for row, seconds in one.given if wanted(one, row)] for one in found]
    return [own for own in every if own]


def _work(row: Measured) -> tuple[int, int, int]:
    return row.config.rows, row.config.prompt, row.config.answer


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None


def _text(figures: dict[str, float | int | None]) -> str:
    keys = ("median", "same_layout", "other_layout", "p90", "pairs_right", "layout_pairs_right", "refused")
    shown = ["-" if figures[key] is None else f"{100 * (figures[key] or 0):.1f}" for key in keys]
    return f"{figures['groups']:>6} {figures['rows']:>6}" + "".join(f"{one:>13}" for one in shown)


def main() -> int:
    """Score every arm on all groups and on either half."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="built-in arms alone; writes nothing")
    quick = parser.parse_args().quick
    rows, impossible = read_rows(package_folder())
    arms: dict[str, Arm] = {
        "three points, mechanism": mechanism,
        "a + b x roofline": roofline,
        "a + b x sequences": line,
    }
    if not quick:
        aic = AicArms()
        arms |= {"aiconfigurator, raw": aic.raw, "aiconfigurator, scaled": aic.scaled}
    halves = {"all": None, "not fitted on": False, "fitted on": True}
    table: dict[str, dict[str, object]] = {}
    print(f"{'percent':<42} {'groups':>6} {'rows':>6}", end="")
    print(
        "".join(
            f"{one:>13}" for one in ("median", "same layout", "other layout", "p90", "pairs", "layout pairs", "refused")
        )
    )
    by_arm = {name: answers(rows, impossible, arm) for name, arm in arms.items()}
    for name, found in by_arm.items():
        for half, is_fit in halves.items():
            some = [one for one in found if is_fit is None or one.group.is_fit == is_fit]
            figures = score(some)
            table[f"{name}; {half}"] = dict(figures)
            print(f"{name + '; ' + half:<42} {_text(figures)}")
    own = by_arm["three points, mechanism"]
    if not quick:
        answered = {(one.group, row.config) for one in by_arm["aiconfigurator, scaled"] for row, _ in one.given}
        for name, found in by_arm.items():
            both = [
                Answers(
                    group=one.group,
                    points=one.points,
                    rows=[(row, s) for row, s in one.rows if (one.group, row.config) in answered],
                    impossible=0,
                )
                for one in found
            ]
            figures = score([one for one in both if one.rows])
            table[f"{name}; where all answer"] = dict(figures)
            print(f"{name + '; where all answer':<42} {_text(figures)}")
    intervals = {
        half: coverage([one for one in own if is_fit is None or one.group.is_fit == is_fit])
        for half, is_fit in halves.items()
    }
    print(f"80 % intervals: {intervals}\nmeasured more than once: {noise(rows)}")
    reached = {
        half: {
            key: (float(str(table[f"three points, mechanism; {half}"][key])) >= limit)
            if key == "pairs_right"
            else (float(str(table[f"three points, mechanism; {half}"][key])) <= limit)
            for key, limit in TARGETS.items()
        }
        for half in ("all", "not fitted on")
    }
    print(f"targets reached: {reached}")
    if not quick:
        record = {
            "date": datetime.now(UTC).date().isoformat(),
            "package": f"aiconfigurator-core {package_version()}",
            "targets": TARGETS,
            "targets_reached": reached,
            "arms": table,
            "intervals_80": intervals,
            "noise": noise(rows),
        }
        replace(HERE / "results" / "decode_rows.json", json.dumps(record, indent=1) + "\n")
    return 0 if all(value for half in reached.values() for value in half.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
