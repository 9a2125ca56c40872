"""How often the tuner's verdicts are wrong: 10,000 simulated sessions a row, through the tuner's own decision code.

`python bench/verdicts.py [--quick]` prints the table and writes `bench/results/verdicts.json` (about ten minutes of one
core; `--quick` runs 40 sessions a row and writes nothing). `--chunk 3/20 --into FOLDER` runs a twentieth and leaves its
counts there, `--merge FOLDER` adds them up. A session's number is its seed, so pieces and whole give the same counts in
the rows with a target; rows without one take the first tenth of each piece.

A session has an A/A repeat, up to eight candidates in trials with their looks, and a confirmation over fresh launches
(`verdict_parts/speed.py`). Its machine replays recorded noise in blocks (`bench/step_trace.py`) under a drift of up to
10 % that also wanders, and every launch differs from the last. Intervals are exact (Clopper-Pearson, 95 %).
"""

import argparse
import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "src")]

from verdict_parts.exact import clopper_pearson  # noqa: E402
from verdict_parts.machine import SEGMENT_STEPS, block_spread, recorded_spread  # noqa: E402
from verdict_parts.rows import DRIFT, LAUNCH_SD, NOISE, NUM_CANDIDATES, PUBLIC_LAUNCH_SD, ROWS, Row, trace  # noqa: E402

NUM_SESSIONS = 10_000
QUICK_SESSIONS = 40
"""A tenth of them for rows without a target."""


def count(row: Row, sessions: range) -> int:
    """Return how many of the sessions of these numbers are hits."""
    return sum(row.hit(f"{row.name} {number}") for number in sessions)


def run(first: int, end: int, only: str = "") -> dict[str, list[int]]:
    """Return hits and sessions by row, of the sessions from ``first`` to ``end``."""
    rows = [row for row in ROWS if only in ("", row.about)]
    chosen = {row.name: range(first, end) if row.target else range(first, first + (end - first) // 10) for row in rows}
    return {row.name: [count(row, chosen[row.name]), len(chosen[row.name])] for row in rows}


def merged(folder: Path) -> dict[str, list[int]]:
    """Add up the chunks of a folder."""
    total: dict[str, list[int]] = {}
    for path in sorted(folder.glob("*.json")):
        for name, (hits, sessions) in json.loads(path.read_text(encoding="utf-8")).items():
            before = total.get(name, [0, 0])
            total[name] = [before[0] + hits, before[1] + sessions]
    return total


def table(counts: dict[str, list[int]]) -> list[dict[str, object]]:
    """Return one record a row, with the exact interval of its share."""
    rows: list[dict[str, object]] = []
    for row in ROWS:
        if row.name not in counts:
            continue
        hits, total = counts[row.name]
        low, high = clopper_pearson(hits, total)
        rows.append(
            {
                "row": row.name,
                "hits": hits,
                "sessions": total,
                "share": round(hits / total, 5),
                "low": round(low, 5),
                "high": round(high, 5),
                "target": row.target.text() if row.target else None,
                "is_met": row.target.holds(hits, total) if row.target else None,
            }
        )
    return rows


def show(rows: list[dict[str, object]]) -> None:
    """Print the table."""
    for row in rows:
        verdict = "" if row["is_met"] is None else f"  {'met' if row['is_met'] else 'MISSED'}: {row['target']}"
        print(
            f"{row['share']:8.4f} ({row['low']:.4f} to {row['high']:.4f}, n={row['sessions']})  {row['row']}{verdict}"
        )


def main() -> int:
    """Run, merge or show; exit 1 where a target is missed (a smoke test judges nothing)."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a smoke test: 40 sessions a row, nothing is written")
    parser.add_argument("--chunk", help="I/N: the I-th of N pieces, counted from 0")
    parser.add_argument("--into", type=Path, help="folder that a piece's counts go to")
    parser.add_argument("--merge", type=Path, help="folder of pieces to add up")
    parser.add_argument(
        "--only", default="", help="rows about `speed`, `reward` or `mismatch` alone; nothing is written"
    )
    parser.add_argument(
        "--sessions", type=int, default=NUM_SESSIONS, help="sessions a row; another number writes nothing"
    )
    args = parser.parse_args()
    if args.chunk:
        index, num = (int(part) for part in args.chunk.split("/"))
        size = NUM_SESSIONS // num
        counts = run(index * size, (index + 1) * size, args.only)
        (args.into / f"{args.only}{index:04d}-{num}.json").write_text(json.dumps(counts) + "\n", encoding="utf-8")
        return 0
    counts = merged(args.merge) if args.merge else run(0, QUICK_SESSIONS if args.quick else args.sessions, args.only)
    rows = table(counts)
    show(rows)
    if args.quick or args.only or args.sessions != NUM_SESSIONS:
        return 0
    is_met = all(row["is_met"] is not False for row in rows)
    found = {
        "what": "sessions through the tuner's own decision code on a simulated machine; exact 95 % intervals",
        "machine": {
            "step_cv": NOISE,
            "launch_sd": [LAUNCH_SD, PUBLIC_LAUNCH_SD],
            "drift_over_a_session": DRIFT,
            "candidates": NUM_CANDIDATES,
            "segment_steps": SEGMENT_STEPS,
            "recorded_spread": {key: round(recorded_spread(key), 4) for key in ("quiet", "busy", "k3")},
            "block_of_3_over_step_spread": {key: round(block_spread(trace(key), 3), 3) for key in ("quiet", "busy")},
        },
        "rows": rows,
        "is_met": is_met,
    }
    (HERE / "results" / "verdicts.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
