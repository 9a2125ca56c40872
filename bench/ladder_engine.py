"""On the embedded engine: what a replay of one side says and costs, beside the whole trial of the same lever.

`python bench/ladder_engine.py` writes `bench/results/ladder_engine.json`; it needs a machine that does nothing else for
about twenty minutes. `--quick` takes a small job and two levers and writes nothing. The example job is profiled once;
then every lever that touches one side is replayed and tried in full against the baseline, the replay first. The
surprise: the two may differ by what a replay cannot see (the hand-over, caches that the other side has emptied), so the
ratios are printed side by side with their intervals, not only whether both decide the same.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from steptune.adapters.embedded.framework import EmbeddedFramework
from steptune.cli.frameworks import cache_dir
from steptune.core.change import Change, Move
from steptune.core.decision import Outcome
from steptune.core.job import BudgetSpec, JobSpec
from steptune.propose.make import make_change
from steptune.store.files import replace
from steptune.store.job_file import load_job
from steptune.store.lock import machine_lock
from steptune.store.run_folder import RunFolder
from steptune.tune.baseline import NOTHING, name_bottlenecks, profile_baseline
from steptune.tune.context import Context, make_context
from steptune.tune.gather import TRIAL_PLAN, gather, plan_for
from steptune.tune.screen import incumbent_of, replay_of, replayable_side
from steptune.tune.session import record_start
from steptune.tune.try_change import attempt, judge

HERE = Path(__file__).resolve().parent
ROOMY = BudgetSpec(max_trials=100, device_time_s=1e6, wall_time_s=1e6)


def job_of(*, quick: bool) -> JobSpec:
    """Return the example, or one that takes a tenth of its steps."""
    job = load_job(HERE.parent / "examples" / "math-dense.toml").model_copy(update={"budget": ROOMY})
    if not quick:
        return job
    small = {"prompts_per_step": 4, "max_completion_len": 32}
    return job.model_copy(
        update={
            "algorithm": job.algorithm.model_copy(update=small),
            "sft": job.sft.model_copy(update={"num_steps": 20}),
        }
    )


def levers(context: Context) -> list[Change]:
    """Return every single move that can run and touches one side that can be replayed."""
    base, by_name = context.baseline_settings, {spec.name: spec for spec in context.specs}
    found = list[Change]()
    for spec in context.specs:
        for value in spec.values:
            change = make_change((Move(knob=spec.name, old=base[spec.name], new=value),), by_name, ())
            can_run = value != base[spec.name] and not context.framework.conflicts(context.job, change.applied_to(base))
            if can_run and replayable_side(context, change, NOTHING) is not None:
                found.append(change)
    return found


def compare(context: Context, number: int, change: Change) -> dict[str, object]:
    """Replay one lever, then try it in full."""
    side = replayable_side(context, change, NOTHING)
    assert side is not None, "`levers` has chosen it so"
    measured = incumbent_of(context.state, NOTHING.signature, side)
    screened = replay_of(context, number=number, change=change, incumbent=NOTHING, side=side, measured=measured)
    noise = context.baseline.noise
    started_s = time.monotonic()
    plan = TRIAL_PLAN if noise is None else plan_for(TRIAL_PLAN, noise)
    trial, (_, outcome, reasons) = gather(
        lambda earlier: attempt(context, number, change, NOTHING, plan, earlier),
        lambda trial: judge(context, trial),
        context.progress.say,
        plan,
    )
    context.runs.stop()
    trial_s = time.monotonic() - started_s
    return {
        "lever": str(change),
        "side": str(side),
        "replay_ratio": None if screened.ratio is None else screened.ratio.model_dump(mode="json"),
        "replay_goes_on": screened.goes_on,
        "replay_problem": screened.problem,
        "replay_s": round(screened.cost_wall_s, 2),
        "trial_ratio": None if trial.ratio is None else trial.ratio.model_dump(mode="json"),
        "trial_outcome": str(outcome),
        "trial_reasons": reasons,
        "trial_s": round(trial_s, 2),
    }


def summary(rows: Sequence[dict[str, object]], step_s: float) -> dict[str, object]:
    """Return median costs in baseline steps: of full trials, and of a ladder that replays every lever first."""
    full = [float(str(row["trial_s"])) / step_s for row in rows]
    ladder = [
        (float(str(row["replay_s"])) + (float(str(row["trial_s"])) if row["replay_goes_on"] else 0.0)) / step_s
        for row in rows
    ]
    adopted = [row for row in rows if row["trial_outcome"] == str(Outcome.ADOPT)]
    return {
        "num_levers": len(rows),
        "full_median_steps": round(statistics.median(full), 1),
        "ladder_median_steps": round(statistics.median(ladder), 1),
        "adopted_in_full": len(adopted),
        "of_them_lost_by_the_replay": sum(not row["replay_goes_on"] for row in adopted),
        "ended_by_the_replay": sum(not row["replay_goes_on"] for row in rows),
    }


def measure(job: JobSpec, root: Path, max_levers: int | None) -> dict[str, object]:
    """Profile the job and compare every lever."""
    framework = EmbeddedFramework(cache_dir=cache_dir(), say=lambda line: print(line, file=sys.stderr))
    framework.prepare(job)

    def clock() -> datetime:
        return datetime.now(UTC)

    context = make_context(job, framework, RunFolder.create(root, job, clock), clock)
    try:
        record_start(context)
        profile_baseline(context, lambda context, first: None)
        name_bottlenecks(context)
        rows = [compare(context, number, change) for number, change in enumerate(levers(context)[:max_levers], 1)]
    finally:
        context.runs.stop()
    step_s = context.baseline.step_time.value
    return {"step_s": step_s, "summary": summary(rows, step_s), "levers": rows}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a small job, two levers, nothing written")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as root, machine_lock(lambda pid, waited_s: None):
        made = measure(job_of(quick=given.quick), Path(root), 2 if given.quick else None)
    print(json.dumps(made, indent=1))
    if not given.quick:
        replace(HERE / "results" / "ladder_engine.json", json.dumps(made, indent=1) + "\n")


if __name__ == "__main__":
    main()
