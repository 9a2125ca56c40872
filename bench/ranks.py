"""Two trainer ranks of one thread against one rank of two threads: the same step on the same two cores.

`python bench/ranks.py [--quick]` writes `bench/results/ranks.json`; a full run takes about three minutes. Arms take
turns, lengths are forced, the first turn is dropped. *step* is the whole synchronous step, *update* its `train` span:
the slower rank's forward and backward, the sum of gradients and AdamW. `1 x 1` is one rank on one thread: what the
second core is worth to either way of using it. Weights are random (no SFT): the work is the same.
"""

import argparse
import json
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

import same_work  # noqa: E402

from steptune import __version__  # noqa: E402
from steptune.adapters.embedded.framework import EmbeddedFramework  # noqa: E402
from steptune.cli.frameworks import cache_dir  # noqa: E402
from steptune.core.framework import LaunchSpec  # noqa: E402
from steptune.core.job import JobSpec, SftSpec  # noqa: E402
from steptune.core.profile import SampledLengths  # noqa: E402
from steptune.core.trial import Observation  # noqa: E402
from steptune.engine.knobs import EngineKnobs  # noqa: E402
from steptune.stats.ratio import block_means, ratio_interval  # noqa: E402
from steptune.store.files import replace  # noqa: E402
from steptune.store.job_file import load_job  # noqa: E402
from steptune.store.lock import machine_lock  # noqa: E402

ARMS = {"1 x 2": (1, 2), "2 x 1": (2, 1), "1 x 1": (1, 1)}
"""Trainer ranks and threads of each; the rollout has two threads in all of them."""

TUNED = {
    "share_prefill": True,
    "compact_finished": True,
    "layout": "packed",
    "micro_batch_tokens": 4096,
    "handover": "alias",
    "rollout_threads": 2,
}

OVERHEADS = ("train/order", "train/rank_wait", "train/reduce")
"""What two ranks add: sending the batch, waiting for the slower rank, adding its gradient."""

Blocks = dict[str, list[list[Observation]]]
"""Steps by arm and turn."""


def jobs() -> dict[str, tuple[JobSpec, SampledLengths]]:
    """Return each model's job with its forced lengths."""
    without_sft = {"sft": SftSpec(num_steps=0)}
    example = load_job(HERE.parent / "examples" / "math-dense.toml").model_copy(update=without_sft)
    large = same_work.job("dense").model_copy(update=without_sft)
    median_len = example.algorithm.max_completion_len // 2
    return {
        "1 M, 128 rollouts": (example, same_work.forced_lengths(example, median_len)),
        "4 M, 64 rollouts": (large, same_work.lengths_of("dense")),
    }


def measure(job: JobSpec, lengths: SampledLengths, num_turns: int, num_steps: int) -> Blocks:
    """Run every arm in turn; the first turn only warms up."""
    framework = EmbeddedFramework(cache_dir=cache_dir())
    blocks: Blocks = {arm: [] for arm in ARMS}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        sessions = {}
        for arm, (ranks, threads) in ARMS.items():
            knobs = EngineKnobs.model_validate({**TUNED, "train_ranks": ranks, "train_threads": threads})
            launch = LaunchSpec(settings=knobs.model_dump(), seed=1, forced_lengths=lengths)
            sessions[arm] = framework.launch(job, launch, folder / arm.replace(" ", ""))
            stack.callback(sessions[arm].close)
        for turn in range(num_turns + 1):
            for arm, session in sessions.items():
                steps = session.run_steps(num_steps)
                if turn > 0:
                    blocks[arm].append(steps)
    return blocks


def seconds_of(step: Observation, *phases: str) -> float:
    """Return the trainer's seconds in some phases."""
    return sum(span.seconds for span in step.spans if span.role == "trainer" and span.phase in phases)


def compared(blocks: Blocks, incumbent: str, candidate: str) -> dict[str, object]:
    """Return how many times as fast ``candidate`` is: above 1 is faster."""
    found: dict[str, object] = {"arms": f"{candidate} over {incumbent}"}
    for name in ("step", "update"):
        times = {
            arm: block_means([[s.step_time_s if name == "step" else seconds_of(s, "train") for s in b] for b in turns])
            for arm, turns in blocks.items()
        }
        gain = ratio_interval(times[incumbent], times[candidate])
        found[name] = {"times_as_fast": round(gain.value, 3), "low": round(gain.low, 3), "high": round(gain.high, 3)}
    return found | {"n": len(blocks[incumbent])}


def table(blocks: Blocks) -> list[dict[str, object]]:
    """Return one row per arm."""
    rows: list[dict[str, object]] = []
    for arm, turns in blocks.items():
        steps = [step for turn in turns for step in turn]
        rows.append(
            {
                "ranks_x_threads": arm,
                "step_s": round(statistics.fmean(step.step_time_s for step in steps), 4),
                "update_s": round(statistics.fmean(seconds_of(step, "train") for step in steps), 4),
                **{
                    phase: round(statistics.fmean(seconds_of(step, phase) for step in steps), 5)
                    for phase in OVERHEADS
                    if ARMS[arm][0] > 1
                },
                "num_steps": len(steps),
            }
        )
    return rows


def main() -> int:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two turns of one step, nothing written")
    is_quick = parser.parse_args().quick
    load, start_s = os.getloadavg()[0], time.monotonic()
    models: dict[str, object] = {}
    with machine_lock(lambda pid, s: print(f"waiting for process {pid}", file=sys.stderr) if s == 0 else None):
        for name, (job, lengths) in jobs().items():
            blocks = measure(job, lengths, *((2, 1) if is_quick else (8, 3)))
            gains = [compared(blocks, "1 x 2", "2 x 1"), compared(blocks, "1 x 1", "2 x 1")]
            models[name] = {"arms": table(blocks), "gains": gains}
    result = {
        "what": "synchronous step and its update with one trainer rank of two threads, two of one, one of one",
        "date": time.strftime("%Y-%m-%d"),
        "machine": {"processor": platform.processor() or platform.machine(), "cores": os.cpu_count(), "load": load},
        "versions": {"steptune": __version__, "python": platform.python_version()},
        "took_s": round(time.monotonic() - start_s),
        "models": models,
    }
    print(json.dumps(result, indent=2))
    if not is_quick:
        replace(HERE / "results" / "ranks.json", json.dumps(result, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
