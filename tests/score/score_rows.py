"""Rows that the tests of the scoreboard are made of."""

from steptune.published.public_run import PublicRun


def row(run_id: str, step_time_s: float, **stated: object) -> PublicRun:
    """Return one row of the job `job`: 8 H100, colocated, 512 samples a step, unless stated otherwise."""
    fields: dict[str, object] = {
        "source": "someone/repo:docs/x.md",
        "framework": "verl",
        "version": "1",
        "n_gpus": 8,
        "gpu_type": "H100",
        "placement": "colocated",
        "gpus_train": 8,
        "async_lag": "0",
        "prompts_per_step": 64,
        "group_size": 8,
        "train_tp": 2,
        "job_group": "job",
        "row_kind": "full_step",
        "quality": "A",
        "steps_averaged": "5",
        **stated,
    }
    return PublicRun.model_validate({"id": run_id, "step_time_s": step_time_s, **fields})


JOB = (
    row("base", 100.0),
    row("tp1", 80.0, train_tp=1),
    row("overlapped", 50.0, placement="disaggregated", gpus_train=4, async_lag="1"),
)
"""Three configurations of one job: a base, half the tensor parallelism, and an overlapped one."""
