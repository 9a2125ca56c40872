"""Fractional devices: the step time of every split of two cores, against max(rollout / r, train / t).

`python bench/splits.py [--quick]` writes `bench/results/splits.json`; a full run takes about four minutes. Each arm is
the whole one-step-off engine in two processes under CPU quotas, all arms in turn, lengths forced. `rollout` and `train`
are each side's busy seconds on one core of its own (the arm 1 + 1), so that arm is no test of the expectation.
`no quota` is the same two threads without any quota: what the quota itself costs. Surprise: a share above one core is
used by two threads, one of which waits now and then; there the expectation is a bound, and the table says how far off.
"""

import argparse
import json
import math
import os
import platform
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "vs_trl"))

from same_work import LARGE, forced_lengths  # noqa: E402

from steptune import __version__  # noqa: E402
from steptune.adapters.embedded.framework import EmbeddedFramework  # noqa: E402
from steptune.adapters.embedded.session import EngineSession  # noqa: E402
from steptune.cli.frameworks import cache_dir  # noqa: E402
from steptune.core.framework import LaunchSpec  # noqa: E402
from steptune.core.job import JobSpec, LimitsSpec  # noqa: E402
from steptune.core.trial import Observation  # noqa: E402
from steptune.engine.knobs import EngineKnobs  # noqa: E402
from steptune.engine.quota.limit import quota_way  # noqa: E402
from steptune.engine.quota.split import splits  # noqa: E402
from steptune.stats.intervals import mean_interval  # noqa: E402
from steptune.store.files import replace  # noqa: E402
from steptune.store.job_file import load_job  # noqa: E402
from steptune.store.lock import machine_lock  # noqa: E402

NUM_CORES = 2
WARMUP_STEPS = 2
"""Steps of an arm that are not kept, after its start."""

ONE_EACH = 1.0
"""The split whose busy seconds the expectation is made of."""

TUNED = {
    "share_prefill": True,
    "compact_finished": True,
    "layout": "packed",
    "micro_batch_tokens": 4096,
    "schedule": "one_step_off",
    "correction": "tis",
}

Arms = dict[float | None, list[Observation]]
"""Steps by the rollout's share of the cores; None is no quota."""


def job() -> JobSpec:
    """Return the example with completions long enough that both sides take about as long."""
    example = load_job(HERE.parent / "examples" / "math-dense.toml")
    algorithm = example.algorithm.model_copy(update={"max_completion_len": 3 * LARGE.median_len, "prompts_per_step": 8})
    limits = LimitsSpec(max_staleness=1, allow_corrections=True)
    return example.model_copy(update={"algorithm": algorithm, "limits": limits})


def knobs(share: float | None) -> EngineKnobs:
    """Return the engine's knobs under a split."""
    rollout, trainer = (1, 1) if share is None else (math.ceil(share), math.ceil(NUM_CORES - share))
    return EngineKnobs.model_validate(
        {**TUNED, "rollout_cores": share, "rollout_threads": rollout, "train_threads": trainer}
    )


def measure(num_rounds: int, num_steps: int) -> Arms:
    """Run every arm in turn, after a turn of warm-up."""
    spec, framework = job(), EmbeddedFramework(cache_dir=cache_dir())
    shares: list[float | None] = [None, *splits(NUM_CORES)]
    arms: Arms = {share: [] for share in shares}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        sessions: dict[float | None, EngineSession] = {}
        for share in shares:
            launch = LaunchSpec(
                settings=knobs(share).model_dump(), seed=1, forced_lengths=forced_lengths(spec, LARGE.median_len)
            )
            sessions[share] = framework.launch(spec, launch, folder / f"{share}")
            stack.callback(sessions[share].close)
        for session in sessions.values():
            session.run_steps(WARMUP_STEPS)
        for _ in range(num_rounds):
            for share, session in sessions.items():
                # the first step after a pause has its batch ready: it would flatter the rollout's side
                arms[share] += session.run_steps(num_steps + 1)[1:]
    return arms


def busy_s(step: Observation, *roles: str) -> float:
    """Return the top-level busy seconds of some roles."""
    return sum(s.seconds for s in step.spans if s.role in roles and s.kind == "busy" and "/" not in s.phase)


def table(arms: Arms) -> list[dict[str, object]]:
    """Return one row per arm."""
    even = arms[ONE_EACH]
    rollout_s = statistics.median(busy_s(step, "rollout", "environment") for step in even)
    train_s = statistics.median(busy_s(step, "trainer") for step in even)
    return [row(share, steps, rollout_s, train_s) for share, steps in arms.items()]


def row(share: float | None, steps: list[Observation], rollout_s: float, train_s: float) -> dict[str, object]:
    """Return an arm's step time beside what its shares let expect."""
    rollout_cores = ONE_EACH if share is None else share
    sides = rollout_s / rollout_cores, train_s / (NUM_CORES - rollout_cores)
    measured = mean_interval([step.step_time_s for step in steps])
    return {
        "rollout_cores": share,
        "trainer_cores": None if share is None else round(NUM_CORES - share, 3),
        "step_s": round(measured.value, 4),
        "low": round(measured.low, 4),
        "high": round(measured.high, 4),
        "n": measured.n,
        "expected_s": round(max(sides), 4),
        "bound_by": "rollout" if sides[0] > sides[1] else "trainer",
        "measured_over_expected": round(measured.value / max(sides), 3),
    }


def main() -> int:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one turn of two steps, nothing written")
    is_quick = parser.parse_args().quick
    load, start_s = os.getloadavg()[0], time.monotonic()
    with machine_lock(lambda pid, s: print(f"waiting for process {pid}", file=sys.stderr) if s == 0 else None):
        arms = measure(1 if is_quick else 3, 2 if is_quick else 4)
    result = {
        "what": "one-step-off step under CPU quotas; expected = max(rollout / r, train / t) from the split 1 + 1",
        "date": time.strftime("%Y-%m-%d"),
        "machine": {"processor": platform.processor() or platform.machine(), "cores": os.cpu_count(), "load": load},
        "versions": {"steptune": __version__, "python": platform.python_version()},
        "quota": quota_way(),
        "took_s": round(time.monotonic() - start_s),
        "splits": table(arms),
    }
    print(json.dumps(result, indent=2))
    if not is_quick:
        replace(HERE / "results" / "splits.json", json.dumps(result, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
