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
import logging
import math
import sys
from collections.abc import Callable, Mapping, Sequence
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
Figures = dict[str, float | None]
OWN = "three points, mechanism"
PARTS = {"all": None, "not fitted on": False, "fitted on": True}
SHOWN = (
    "groups",
    "rows",
    "median",
    "same_layout",
    "other_layout",
    "p90",
    "pairs_right",
    "layout_pairs_right",
    "refused",
    "refused_by_row",
)


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


def score(found: Sequence[Answers]) -> Figures:
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


def noise(rows: dict[Group, list[Measured]]) -> Figures:
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


def main() -> int:
    """Score every arm on all groups and on either half."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="built-in arms alone; writes nothing")
    quick = parser.parse_args().quick
    rows, impossible = read_rows(package_folder())
    arms: dict[str, Arm] = {OWN: mechanism, "a + b x roofline": roofline, "a + b x sequences": line}
    if not quick:
        logging.getLogger("aiconfigurator_core").setLevel(logging.ERROR)
        aic = AicArms()
        arms |= {"aiconfigurator, raw": aic.raw, "aiconfigurator, scaled": aic.scaled}
    found = {name: answers(rows, impossible, arm) for name, arm in arms.items()}
    table: dict[str, dict[str, Figures]] = {
        part: {name: score(_part(one, is_fit)) for name, one in found.items()} for part, is_fit in PARTS.items()
    }
    record = {
        "date": datetime.now(UTC).date().isoformat(),
        "package": f"aiconfigurator-core {package_version()}",
        "targets": TARGETS,
        "targets_reached": {part: reached(table[part][OWN]) for part in ("all", "not fitted on")},
        "arms": table,
        "intervals_80": {part: coverage(_part(found[OWN], is_fit)) for part, is_fit in PARTS.items()},
        "noise": noise(rows),
    }
    show(record, table)
    if not quick:
        replace(HERE / "results" / "decode_rows.json", json.dumps(record, indent=1) + "\n")
    return 0 if all(reached(table["all"][OWN]).values()) else 1


def reached(figures: Figures) -> dict[str, bool]:
    """Return which targets the figures meet; an unknown one meets none."""
    met: dict[str, bool] = {}
    for key, limit in TARGETS.items():
        value = figures[key]
        met[key] = value is not None and (value >= limit if key == "pairs_right" else value <= limit)
    return met


def show(record: Mapping[str, object], table: Mapping[str, Mapping[str, Figures]]) -> None:
    """Print the table in percent, and what else the record holds."""
    print(f"{record['package']}, {record['date']}; percent\n{'':<42}" + "".join(f"{key:>19}" for key in SHOWN))
    for part, arms in table.items():
        for name, figures in arms.items():
            print(f"{f'{part}: {name}':<42}" + "".join(f"{_text(key, figures[key]):>19}" for key in SHOWN))
    for key in ("intervals_80", "noise", "targets_reached"):
        print(f"{key}: {record[key]}")


def _text(key: str, value: float | None) -> str:
    if value is None:
        return "-"
    return str(value) if key in ("groups", "rows") else f"{100 * value:.1f}"


def _part(found: Sequence[Answers], is_fit: bool | None) -> list[Answers]:
    return [one for one in found if is_fit is None or one.group.is_fit == is_fit]


if __name__ == "__main__":
    sys.exit(main())
