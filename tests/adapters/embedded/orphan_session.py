"""Started by a test: launches a real run with a rollout worker, prints every process id, and waits to be killed."""

import sys
import time
from pathlib import Path

from steptune.adapters.embedded.framework import EmbeddedFramework
from steptune.core.framework import LaunchSpec
from steptune.core.job import AlgorithmSpec, DenseModel, JobSpec, LimitsSpec, MathWorkload, SftSpec

JOB = JobSpec(
    name="orphan",
    model=DenseModel(num_layers=1, d_model=16, num_heads=2, num_kv_heads=1, d_ff=32),
    workload=MathWorkload(levels=(1,), num_validation=10),
    sft=SftSpec(num_steps=1, batch_size=2),
    algorithm=AlgorithmSpec(prompts_per_step=2, group_size=2, max_completion_len=8),
    limits=LimitsSpec(max_staleness=1, allow_corrections=True),
)


def main() -> None:
    folder = Path(sys.argv[1])
    framework = EmbeddedFramework(cache_dir=folder / "cache")
    settings = {lever.knob: lever.value for lever in framework.baseline(JOB, "expert")}
    settings |= {"schedule": "one_step_off", "handover": "copy", "correction": "tis"}
    settings |= {"rollout_threads": 1, "train_threads": 1}
    session = framework.launch(JOB, LaunchSpec(settings=settings, seed=1), folder / "run")
    session.run_steps(2)
    sys.stdout.write(f"{session.process.pid}\n")
    sys.stdout.flush()
    time.sleep(600)


if __name__ == "__main__":
    main()
