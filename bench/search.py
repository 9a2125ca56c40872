"""What finds a fast configuration at the smallest cost: the tuner's search against others, on spaces of known optimum.

`python bench/search.py --minutes 2` works for that long, the most telling searches first, and goes on where it was.
`--chunk SHAPE/CONDITION/ARM/0-29` (repeated; `all` stands for each) runs those alone, `--merge FILE ...` adds what
other raw files hold, `--report` writes `bench/results/search.json` of the curves that have their seeds, and `--quick`
tries two seeds of one shape. Every arm pays the same: start-ups (20 steps of the baseline each), warm-up, rehearsals,
both arms' blocks and replays, on a virtual clock, so that the result is the same on any machine. Optuna's arms need
`requirements/bench-search.txt`; without it they are left out, and the output says so. The surprise: everything below 60
steps is decided by the very first trial.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "search"))

from search_arms import ARMS, run_arm, run_ours  # noqa: E402
from search_curves import CLAIM_COSTS, Found, claim, summary  # noqa: E402
from search_instances import (  # noqa: E402
    CONDITIONS,
    MAX_STEPS,
    START_UP_STEPS,
    TABLE,
    USUAL,
    Case,
    best_fixed_ratio,
    best_speedup,
    profiled,
    shapes_there,
    virtual_s,
)

from steptune.core.event import TrialEnded  # noqa: E402
from steptune.store.files import replace  # noqa: E402
from steptune.store.replay import fold  # noqa: E402
from steptune.tune.baseline import NOTHING  # noqa: E402
from steptune.tune.search_state import search_state  # noqa: E402

try:
    from search_optuna import OPTUNA_ARMS, VERSION
except ImportError as error:
    OPTUNA_ARMS, VERSION = {}, f"left out: {error}; install requirements/bench-search.txt"

NUM_SEEDS = 30
MIN_SEEDS = 20
"""Seeds of a peer below which its curve is left out; ours needs all. A peer is compared over its own seeds."""
OURS, FIXED = "ours", "best fixed setting"
ALL_ARMS = {**ARMS, **OPTUNA_ARMS}
FORECASTERS = (OURS, "top forecasts")
"""Arms that depend on how the forecast errs; the others run under the usual condition only."""
USUAL_ONLY = ("large", TABLE)
"""Beginnings of shapes that are run under one condition: a minute a search, and forecasts that err by themselves."""
RAW = HERE / "results" / "search-raw.jsonl"
"""One line a search; not for the repository."""

Piece = tuple[str, str, str, int]
"""Shape, condition, arm, seed."""


def pieces(shapes: list[str], seeds: range) -> Iterator[Piece]:
    """Yield everything there is to run, the most telling first: arm by arm, and of each arm seed by seed."""
    for arm in (OURS, *ALL_ARMS):
        for seed in seeds:
            for shape in shapes:
                for condition in CONDITIONS:
                    if condition == USUAL or (arm in FORECASTERS and not shape.startswith(USUAL_ONLY)):
                        yield shape, condition, arm, seed


def chunk(text: str) -> list[Piece]:
    """Return the searches that ``SHAPE/CONDITION/ARM/FIRST-LAST`` names."""
    shape, condition, arm, seeds = text.split("/")
    first, last = (int(number) for number in seeds.split("-"))
    every = pieces(shapes_there() if shape == "all" else [shape], range(first, last + 1))
    return [p for p in every if condition in ("all", p[1]) and arm in ("all", p[2])]


def merge(files: list[Path], raw: Path) -> int:
    """Add the searches of other files that ``raw`` lacks; return how many."""
    known, new = read(raw), dict[Piece, Found]()
    for file in files:
        new |= {piece: found for piece, found in read(file).items() if piece not in known}
    with raw.open("a", encoding="utf-8") as out:
        for piece, found in new.items():
            out.write(json.dumps([*piece, asdict(found)]) + "\n")
    return len(new)


def run_piece(piece: Piece) -> Found:
    """Run one search."""
    shape, condition, arm, seed = piece
    with profiled(shape, seed, condition) as case:
        context = case.context
        started_s = context.budget.clock()
        if arm == OURS:
            run_ours(context)
        else:
            run_arm(context, ALL_ARMS[arm](seed))
        steps, ratios = trail(case, started_s)
        return Found(
            best=case.best, steps=steps, ratios=ratios, stopped=(context.budget.clock() - started_s) / case.step_s
        )


def trail(case: Case, started_s: float) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return when each trial ended, and the true ratio of the incumbent then, as the journal has it."""
    context = case.context
    entries = context.journal.entries
    steps, ratios = list[float](), list[float]()
    for index, entry in enumerate(entries):
        if isinstance(entry.body, TrialEnded):
            found = search_state(fold([e.body for e in entries[: index + 1]]), context.effects)
            change = found.incumbent.trial.change if found.incumbent else NOTHING
            steps.append(round((virtual_s(entry.time) - started_s) / case.step_s, 2))
            ratios.append(round(case.true_ratio(change.applied_to(context.baseline_settings)), 5))
    return tuple(steps), tuple(ratios)


def work(todo: list[Piece], minutes: float, raw: Path) -> int:
    """Run pieces until the time is up; return how many are left."""
    deadline_s = time.monotonic() + 60 * minutes
    with raw.open("a", encoding="utf-8") as out:
        for done, piece in enumerate(todo):
            if time.monotonic() > deadline_s:
                return len(todo) - done
            out.write(json.dumps([*piece, asdict(run_piece(piece))]) + "\n")
            out.flush()
    return 0


def read(raw: Path) -> dict[Piece, Found]:
    """Return what has been run so far."""
    found = dict[Piece, Found]()
    for line in raw.read_text(encoding="utf-8").splitlines() if raw.exists() else []:
        shape, condition, arm, seed, run = json.loads(line)
        found[shape, condition, arm, seed] = Found(
            **{**run, "steps": tuple(run["steps"]), "ratios": tuple(run["ratios"])}
        )
    return found


def report(found: dict[Piece, Found], shapes: list[str], num_seeds: int) -> dict[str, object]:
    """Return the tables: a curve per shape, condition and arm, and what may be claimed."""
    tables = dict[str, object]()
    for shape in shapes:
        for condition in CONDITIONS:
            runs = {arm: runs_of(found, (shape, condition, arm), num_seeds) for arm in (OURS, *ALL_ARMS)}
            runs = {arm: each for arm, each in runs.items() if len(each) >= min(MIN_SEEDS, num_seeds)}
            if len(runs.get(OURS, {})) < num_seeds:
                continue
            if condition == USUAL:
                runs[FIXED] = fixed(shape, num_seeds)
            tables[shape if shape.startswith(TABLE) else f"{shape}, {condition}"] = {
                "arms": {arm: summary(list(each.values())) for arm, each in runs.items()},
                "ours_minus": {
                    arm: {str(c): claim([runs[OURS][s] for s in each], list(each.values()), c) for c in CLAIM_COSTS}
                    for arm, each in runs.items()
                    if arm != OURS
                },
            }
    return {
        "num_seeds": num_seeds,
        "relaunch_steps": START_UP_STEPS,
        "max_steps": MAX_STEPS,
        "optuna": VERSION,
        "tables": tables,
    }


def missing(todo: list[Piece]) -> list[str]:
    """Return the curves that lack a seed."""
    return list(dict.fromkeys(f"{shape}, {condition}: {arm}" for shape, condition, arm, _ in todo))


def runs_of(found: dict[Piece, Found], curve: tuple[str, str, str], num_seeds: int) -> dict[int, Found]:
    """Return the searches of one curve by seed."""
    return {seed: found[(*curve, seed)] for seed in range(num_seeds) if (*curve, seed) in found}


def fixed(shape: str, num_seeds: int) -> dict[int, Found]:
    """Return the one setting that is best for all seeds, known at no cost."""
    ratios = best_fixed_ratio(shape, range(num_seeds))
    return {
        seed: Found(best=best_speedup(shape, seed), steps=(0.0,), ratios=(ratio,), stopped=0.0)
        for seed, ratio in ratios.items()
    }


def show(tables: dict[str, object]) -> None:
    """Print the median gain at some costs."""
    for name, table in tables.items():
        print(f"\n{name}")
        for arm, row in table["arms"].items():  # type: ignore[index]
            gains = "  ".join(f"{c}: {row['gain_median'][c]:5.2f}" for c in ("40", "60", "100", "200", "400"))
            print(
                f"  {arm:20} {gains}  90 % at {row['steps_to_90_percent']}, stopped {row['steps_when_stopped_median']}"
            )


def main() -> None:
    """Work, or report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=2.0, help="how long to work")
    parser.add_argument("--seeds", type=int, default=NUM_SEEDS)
    parser.add_argument("--shapes", default="|".join(shapes_there()), help="separated by |")
    parser.add_argument("--arms", default="|".join((OURS, *ALL_ARMS)), help="separated by |")
    parser.add_argument("--commit", default="", help="code that the searches were run with, for the report")
    parser.add_argument("--conditions", default="|".join(CONDITIONS), help="separated by |")
    parser.add_argument("--raw", type=Path, default=RAW, help="where finished searches are kept")
    parser.add_argument("--chunk", action="append", default=[], help="SHAPE/CONDITION/ARM/FIRST-LAST, run alone")
    parser.add_argument("--merge", nargs="+", type=Path, default=[], help="raw files to add to --raw")
    parser.add_argument("--report", action="store_true", help="write the tables from what is there")
    parser.add_argument("--quick", action="store_true", help="two seeds of one shape, nothing written")
    given = parser.parse_args()
    shapes, num_seeds, arms = given.shapes.split("|"), given.seeds, given.arms.split("|")
    print(f"Optuna: {VERSION}", file=sys.stderr)
    if given.quick:
        found = {piece: run_piece(piece) for piece in pieces(["rollout_bound"], range(2))}
        show(report(found, ["rollout_bound"], 2)["tables"])  # type: ignore[arg-type]
        return
    if given.merge:
        print(f"{merge(given.merge, given.raw)} searches added", file=sys.stderr)
    known = read(given.raw)
    wanted = given.conditions.split("|")
    every = [p for p in pieces(shapes, range(num_seeds)) if p[1] in wanted and p[2] in arms]
    todo = [p for p in ([p for text in given.chunk for p in chunk(text)] if given.chunk else every) if p not in known]
    if given.report:
        made = report(known, shapes, num_seeds)
        show(made["tables"])  # type: ignore[arg-type]
        print(f"left out, because not every seed was run: {'; '.join(missing(todo)) or 'nothing'}", file=sys.stderr)
        if num_seeds >= NUM_SEEDS:
            replace(
                HERE / "results" / "search.json",
                json.dumps({"commit": given.commit, **made, "left_out": missing(todo)}, indent=1) + "\n",
            )
        return
    left = work(todo, given.minutes, given.raw)
    print(f"{left} of {len(todo)} searches left", file=sys.stderr)


if __name__ == "__main__":
    main()
