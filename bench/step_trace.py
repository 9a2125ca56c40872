"""Records how the embedded engine's steps really spread: the raw material of `bench/verdicts.py`.

`python bench/step_trace.py [--quick]` writes the part `busy` of `bench/traces/embedded_steps.json` in some minutes
(`--quick` runs ten steps and writes nothing); `quiet` is the A/A steps of real sessions, taken from their journals.
Every launch is a process of its own and runs the same work step after step, at forced lengths, so what is left is
noise: of the clock, the machine, its other users and the launch. The rollout is in int8, so that the same-weights gap
of a step is a real one as well. Absolute times do not matter and the machine need not be quiet: `verdicts` rescales
the spread and keeps its shape and its memory from step to step.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from steptune.core.job import AlgorithmSpec, JobSpec
from steptune.core.model import DenseModel
from steptune.core.profile import SampledLengths

HERE = Path(__file__).resolve().parent

NUM_LAUNCHES = 4

NUM_STEPS = 120
"""Kept steps of a launch: blocks of a dozen steps drawn from them are rarely the same."""

NUM_WARM_UP = 5

LENGTHS = (6, 9, 12, 14, 15, 17, 22, 40)
"""Completion lengths of a group in tokens, about those of the example job."""

MODEL = DenseModel(num_layers=3, d_model=192, num_heads=6, num_kv_heads=2, d_ff=384)

JOB = JobSpec(name="trace", model=MODEL, algorithm=AlgorithmSpec(prompts_per_step=2, group_size=8))

PROMPT_TOKENS = 24


def child(num_steps: int, seed: int) -> dict[str, list[float]]:
    """Run one launch in this process; return step times in seconds and k3 in nats, step by step."""
    import torch

    from steptune.engine.knobs import EngineKnobs
    from steptune.engine.loop import Loop, LoopSpec
    from steptune.engine.model import build_model
    from steptune.engine.produce import TOKENIZER

    torch.set_num_threads(1)
    knobs = EngineKnobs.model_validate({"train_threads": 1, "rollout_threads": 1, "rollout_dtype": "int8"})
    rows = JOB.algorithm.rollouts_per_step * (num_steps + NUM_WARM_UP)
    forced = SampledLengths(
        prompt=(PROMPT_TOKENS,) * rows,
        completion=LENGTHS * (rows // len(LENGTHS)),
        rollouts_per_step=JOB.algorithm.rollouts_per_step,
    )
    with tempfile.TemporaryDirectory() as folder:
        model = build_model(JOB.model, TOKENIZER.vocab_size, 1)
        spec = LoopSpec(job=JOB, knobs=knobs, seed=seed, forced=forced, capture_batches=0, folder=Path(folder))
        loop = Loop(spec, model, model.state_dict())
        steps = [loop.step() for _ in range(num_steps + NUM_WARM_UP)][NUM_WARM_UP:]
        loop.close()
    return {
        "step_s": [round(step.step_time_s, 6) for step in steps],
        "k3": [float(f"{step.mismatch.k3:.4g}") for step in steps if step.mismatch is not None],
    }


def main() -> None:
    """Record every launch in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a smoke test: ten steps of two launches, written nowhere")
    parser.add_argument("--child", type=int, nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(json.dumps(child(*args.child)))
        return
    num_launches, num_steps = (2, 10) if args.quick else (NUM_LAUNCHES, NUM_STEPS)
    command = [sys.executable, __file__, "--child", str(num_steps)]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    launches = [
        json.loads(subprocess.run([*command, str(seed)], check=True, capture_output=True, text=True, env=env).stdout)
        for seed in range(1, num_launches + 1)
    ]
    recorded = {
        "what": "consecutive steps of equal work, embedded engine, one thread, int8 rollout; a launch is a process",
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, in use by others",
        "date": datetime.now(UTC).date().isoformat(),
        "launches": launches,
    }
    if args.quick:
        print(json.dumps(recorded))
        return
    path = HERE / "traces" / "embedded_steps.json"
    kept = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**kept, "busy": recorded}, indent=1) + "\n", encoding="utf-8")
    print(path.name)


if __name__ == "__main__":
    main()
