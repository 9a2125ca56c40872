"""Does the embedded engine really learn? 150 RL steps from the SFT start, five seeds, all of them shown.

`python bench/learns.py` writes `bench/results/learns.json` and prints a table. The settings were fixed before
the first run: `bench/learns.toml`. Target: mean rise of held-out accuracy at least 0.15, every seed at least 0.08.
"""

import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import fmean

from steptune.adapters.embedded.framework import EmbeddedFramework
from steptune.cli.frameworks import cache_dir
from steptune.core.framework import LaunchSpec
from steptune.core.job import JobSpec
from steptune.stats.intervals import mean_interval
from steptune.store.files import replace
from steptune.store.job_file import load_job
from steptune.store.lock import machine_lock

HERE = Path(__file__).parent
NUM_STEPS = 150
SEEDS = (1, 2, 3, 4, 5)
MIN_MEAN_RISE, MIN_SEED_RISE = 0.15, 0.08
EVALUATE_EVERY = 50


def train(framework: EmbeddedFramework, job: JobSpec, seed: int, folder: Path) -> dict[str, object]:
    """Train one seed and return its accuracy curve."""
    settings = {lever.knob: lever.value for lever in framework.baseline(job, job.baseline)}
    session = framework.launch(job, LaunchSpec(settings=settings, seed=seed, is_untimed=True), folder)
    try:
        curve = [session.evaluate().accuracy]
        for _ in range(0, NUM_STEPS, EVALUATE_EVERY):
            session.run_steps(EVALUATE_EVERY)
            curve.append(session.evaluate().accuracy)
            print(f"seed {seed}: {' -> '.join(f'{a:.3f}' for a in curve)}", file=sys.stderr)
    finally:
        session.close()
    return {"seed": seed, "accuracy": [round(a, 4) for a in curve], "rise": round(curve[-1] - curve[0], 4)}


def main() -> int:
    """Run every seed, print and save the table; exit 1 if the target is missed."""
    job = load_job(HERE / "learns.toml")
    assert job.algorithm.rollouts_per_step >= 256, "the target is set for at least 256 rollouts a step"
    framework = EmbeddedFramework(cache_dir=cache_dir())
    framework.start(job)
    runs = Path("runs") / f"learns-{time.strftime('%Y%m%dT%H%M%S')}"
    started_s, load = time.monotonic(), os.getloadavg()[0]
    with machine_lock(lambda pid, s: None), ThreadPoolExecutor(job.devices.num_cores) as pool:
        rows = list(pool.map(lambda seed: train(framework, job, seed, runs / str(seed)), SEEDS))
    rises = [float(str(row["rise"])) for row in rows]
    interval = mean_interval(rises)
    result = {
        "what": "held-out accuracy at the training temperature, before and after RL; every seed",
        "steps": NUM_STEPS,
        "rollouts_per_step": job.algorithm.rollouts_per_step,
        "num_problems": job.workload.num_validation,
        "mean_rise": round(fmean(rises), 4),
        "mean_rise_95": [round(interval.low, 4), round(interval.high, 4)],
        "target": {"mean": MIN_MEAN_RISE, "every_seed": MIN_SEED_RISE},
        "is_met": fmean(rises) >= MIN_MEAN_RISE and min(rises) >= MIN_SEED_RISE,
        "seeds": rows,
        "wall_s": round(time.monotonic() - started_s),
        "load_avg_at_start": load,
        "date": time.strftime("%Y-%m-%d"),
    }
    replace(HERE / "results" / "learns.json", json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))
    return 0 if result["is_met"] else 1


if __name__ == "__main__":
    sys.exit(main())
