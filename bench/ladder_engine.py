"""On the embedded engine: what a trial costs with a replay of its one side before it and without, lever by lever.

`python bench/ladder_engine.py --folder F --minutes 8` goes on where the last call with that folder stopped, for about
that long, and exits with 3 as long as levers are left; then it writes `bench/results/ladder_engine.json`. `--report`
writes it of the levers that both arms have tried by then. Nothing else may run on the machine. `--quick` takes a small
job and two levers and writes nothing.

The example job is profiled once; both arms go on from that profile in run folders of their own. Every lever that moves
one side of the step, in an order drawn by seed, is tried by the tuner's own `try_one` against the baseline: by a
framework that cannot replay a side (*full*) and by one that can (*ladder*), in turns first. Costs are wall seconds from
a trial's start to its result in steps of the baseline. The surprise: a replay cannot see the hand-over or caches that
the other side has emptied, so both ratios are in the rows, not only whether both decide the same.
"""

import argparse
import json
import math
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "search"))

from search_arms import space_of  # noqa: E402

from steptune.adapters.embedded.framework import EmbeddedFramework  # noqa: E402
from steptune.cli.frameworks import cache_dir  # noqa: E402
from steptune.core.change import Change, Move  # noqa: E402
from steptune.core.decision import Outcome  # noqa: E402
from steptune.core.estimate import Estimate  # noqa: E402
from steptune.core.event import SessionResumed  # noqa: E402
from steptune.core.framework import Framework, ReplaysSides  # noqa: E402
from steptune.core.job import BudgetSpec, JobSpec  # noqa: E402
from steptune.propose.make import make_change  # noqa: E402
from steptune.stats.bootstrap import bootstrap_interval  # noqa: E402
from steptune.store.codehash import code_hash  # noqa: E402
from steptune.store.files import replace  # noqa: E402
from steptune.store.job_file import load_job  # noqa: E402
from steptune.store.lock import machine_lock  # noqa: E402
from steptune.store.run_folder import RunFolder  # noqa: E402
from steptune.tune.baseline import NOTHING, name_bottlenecks, profile_baseline  # noqa: E402
from steptune.tune.context import Context, make_context  # noqa: E402
from steptune.tune.parity import measure_band  # noqa: E402
from steptune.tune.screen import replayable_side  # noqa: E402
from steptune.tune.search import try_one  # noqa: E402
from steptune.tune.search_state import SearchState  # noqa: E402
from steptune.tune.session import record_start  # noqa: E402
from steptune.tune.suspicion import Suspicion  # noqa: E402

ROOMY = BudgetSpec(max_trials=1000, device_time_s=1e6, wall_time_s=1e6)
ORDER_SEED = 6
PIECE_OVER = 3
"""Exit code where levers are left."""
LEVER_STEPS = 110.0
"""Steps of the baseline that both arms of a lever may take: a piece begins none that would not fit."""
UNTRIED = SearchState(
    tried=frozenset(),
    banned=frozenset(),
    relabelled=frozenset(),
    suspicion=Suspicion.of([]),
    incumbent=None,
    history=(),
)
ARMS = ("full", "ladder")


class Whole:
    """The framework without its gift of replaying a side."""

    HIDDEN = ("replayable_sides", "is_ready_to_replay", "replay_side")

    def __init__(self, framework: EmbeddedFramework) -> None:
        self._framework = framework

    def __getattr__(self, name: str) -> object:
        if name in self.HIDDEN:
            raise AttributeError(name)
        return getattr(self._framework, name)


def job_of(*, quick: bool) -> JobSpec:
    """Return the example, or the smallest job that does everything."""
    path = HERE / "chaos.toml" if quick else HERE.parent / "examples" / "math-dense.toml"
    return load_job(path).model_copy(update={"budget": ROOMY})


def now() -> datetime:
    """Tell the time that journals are dated with."""
    return datetime.now(UTC)


def profiled(job: JobSpec, framework: EmbeddedFramework, root: Path) -> None:
    """Profile the job and leave both arms a run folder to go on from, unless that was done before."""
    if (root / "ladder").exists():
        return
    shutil.rmtree(root / "profile", ignore_errors=True)
    context = make_context(job, framework, RunFolder.create(root / "profile", job, now), now)
    try:
        record_start(context)
        profile_baseline(context, is_capped=False)
        name_bottlenecks(context)
    finally:
        context.runs.stop()
    for arm in ARMS:
        made = root / f"{arm}.part"
        shutil.copytree(context.folder.path, made)
        made.rename(root / arm)


def engine() -> EmbeddedFramework:
    """Return the engine; each arm has one, and so a helper, of its own."""
    return EmbeddedFramework(cache_dir=cache_dir(), say=lambda line: print(line, file=sys.stderr))


@contextmanager
def resumed(job: JobSpec, folder: Path, *, can_replay: bool, is_going_on: bool) -> Generator[Context]:
    """Yield an arm's session as it stands, with what every session has measured when its search begins."""
    embedded = engine()
    framework: Framework = embedded if can_replay else Whole(embedded)  # type: ignore[assignment]
    assert isinstance(framework, ReplaysSides) == can_replay, "only one arm can replay a side"
    with embedded.helper():
        context = make_context(job, framework, RunFolder.open(folder), now)
        if context.state.running:  # the last piece was killed in a trial
            context.record(SessionResumed(code_hash=code_hash(), abandoned_trials=context.state.running_numbers))
        if is_going_on:
            measure_band(context)  # this also brings the helper up, as the probe does
        try:
            yield context
        finally:
            context.runs.stop()


def levers(context: Context) -> list[Change]:
    """Return every single move that can run and touches one side that can be replayed, in an order drawn by seed."""
    base, by_name = context.baseline_settings, {spec.name: spec for spec in context.specs}
    found = list[Change]()
    for spec in context.specs:
        for value in spec.values:
            change = make_change((Move(knob=spec.name, old=base[spec.name], new=value),), by_name, ())
            can_run = value != base[spec.name] and not context.framework.conflicts(context.job, change.applied_to(base))
            if can_run and replayable_side(context, change, NOTHING) is not None:
                found.append(change)
    random.Random(ORDER_SEED).shuffle(found)
    return found


def tried(context: Context, change: Change) -> dict[str, object]:
    """Try one lever in one arm, or return what an earlier piece's trial of it came to."""
    ended = next((e for e in context.state.ended if e.trial.change.signature == change.signature), None)
    if ended is None:
        context.budget.num_trials = 0
        try_one(context, space_of(context, change), 0, UNTRIED)
        ended = context.state.ended[-1]
        context.runs.stop()
    screened = context.state.screening_of(ended.trial.number, change.signature)
    return {
        "outcome": str(ended.outcome),
        "reasons": ended.reasons,
        "cost_s": round(ended.trial.cost_wall_s, 2),
        "ratio": told(ended.ratio_to_baseline),
        "num_steps": sum(len(arm.observations) for arm in ended.trial.arms),
        "replay": None if screened is None else screened.because,
        "replay_s": None if screened is None else round(screened.cost_wall_s, 2),
    }


def told(ratio: Estimate | None) -> list[float | None] | None:
    """Return a ratio as value, low and high."""
    return None if ratio is None else [ratio.value, ratio.low, ratio.high]


def compared(contexts: dict[str, Context], number: int, change: Change) -> dict[str, object]:
    """Try one lever in both arms, in turns first."""
    order = ARMS if number % 2 == 0 else ARMS[::-1]
    made = {arm: tried(contexts[arm], change) for arm in order}
    return {"lever": str(change), "effect": str(change.effect), **{arm: made[arm] for arm in ARMS}}


def summary(rows: Sequence[dict[str, dict[str, object]]], step_s: float) -> dict[str, object]:
    """Return median costs in steps of the baseline and how often both arms decided the same."""
    steps = {arm: [float(str(row[arm]["cost_s"])) / step_s for row in rows] for arm in ARMS}
    adopted = {arm: [row[arm]["outcome"] == str(Outcome.ADOPT) for row in rows] for arm in ARMS}

    def of_medians(places: Sequence[float]) -> float:
        chosen = [[steps[arm][int(i)] for i in places] for arm in ARMS]
        return statistics.median(chosen[1]) / statistics.median(chosen[0])

    ratio = bootstrap_interval([float(i) for i in range(len(rows))], of_medians, seed=0) if len(rows) > 1 else None
    return {
        "num_levers": len(rows),
        "median_steps": {arm: round(statistics.median(steps[arm]), 1) for arm in ARMS},
        "mean_steps": {arm: round(statistics.fmean(steps[arm]), 1) for arm in ARMS},
        "median_ratio": None if ratio is None else [round(v, 3) for v in (ratio.value, ratio.low, ratio.high)],
        "adopted": {arm: sum(adopted[arm]) for arm in ARMS},
        "same_decision": sum(a == b for a, b in zip(adopted["full"], adopted["ladder"], strict=True)),
        "replayed": sum(row["ladder"]["replay"] is not None for row in rows),
    }


def measure(
    job: JobSpec, root: Path, stop_s: float, max_levers: int | None, *, is_going_on: bool
) -> dict[str, object] | None:
    """Compare lever after lever; None where the time was up before the last."""
    embedded = engine()
    embedded.prepare(job)
    if is_going_on:
        profiled(job, embedded, root)
    with ExitStack() as stack:
        contexts = {
            arm: stack.enter_context(resumed(job, root / arm, can_replay=arm == "ladder", is_going_on=is_going_on))
            for arm in ARMS
        }
        step_s = contexts["ladder"].baseline.step_time.value
        rows = list[dict[str, dict[str, object]]]()
        for number, change in enumerate(levers(contexts["ladder"])[:max_levers]):
            done = all(change.signature in {e.trial.change.signature for e in c.state.ended} for c in contexts.values())
            if not done and not is_going_on:
                continue
            if not done and time.monotonic() + LEVER_STEPS * step_s > stop_s:
                return None
            rows.append(compared(contexts, number, change))  # type: ignore[arg-type]
    return {"step_s": step_s, "summary": summary(rows, step_s), "levers": rows}


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a small job, two levers, nothing written")
    parser.add_argument("--folder", type=Path, help="where a piece goes on from, or leaves off")
    parser.add_argument("--minutes", type=float, default=math.inf, help="of this piece")
    parser.add_argument("--report", action="store_true", help="run nothing, write what there is")
    parser.add_argument("--levers", type=int, help="at most so many")
    given = parser.parse_args()
    stop_s = time.monotonic() + 60 * given.minutes
    with tempfile.TemporaryDirectory() as name, machine_lock(lambda pid, waited_s: None):
        root = given.folder or Path(name)
        root.mkdir(parents=True, exist_ok=True)
        num = 2 if given.quick else given.levers
        made = measure(job_of(quick=given.quick), root, stop_s, num, is_going_on=not given.report)
    if made is None:
        return PIECE_OVER
    print(json.dumps(made, indent=1))
    if not given.quick:
        replace(HERE / "results" / "ladder_engine.json", json.dumps(made, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
