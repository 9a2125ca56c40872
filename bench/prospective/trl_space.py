"""TRL's jobs: its own trainer on small dense and expert models, under changes that keep every rollout and update.

A candidate moves rows per micro-batch, generation calls per step, checkpointing, number format and threads. Surprise:
the loss is averaged row by row (`grpo`), as TRL's token mean spans a generation call and would change with it.
"""

from collections.abc import Mapping

from prospective.job import Job
from prospective.space import Space
from prospective.step_lengths import num_rows
from steptune.core.job import AlgorithmSpec, JobSpec, LossAggregation, MathWorkload
from steptune.core.knob import KnobValue
from steptune.core.model import DenseModel, ModelSpec, MoEModel

MODELS: dict[str, ModelSpec] = {
    "dense": DenseModel(num_layers=4, d_model=256, num_heads=8, num_kv_heads=4, d_ff=1024),
    "moe": MoEModel(num_layers=3, d_model=192, num_heads=6, num_kv_heads=3, num_experts=8, top_k=2, d_expert=256),
    "deep": DenseModel(num_layers=8, d_model=128, num_heads=4, num_kv_heads=2, d_ff=384),
}
"""4 M parameters; 4 M with experts; 1 M in many thin layers, where calls cost more than arithmetic."""

KNOBS: dict[str, tuple[KnobValue, ...]] = {
    "per_device_train_batch_size": (1, 2, 4, 8, 16),
    "generation_calls": (1, 1, 2, 4),
    "gradient_checkpointing": (False, True),
    "bf16": (False, True),
    "num_threads": (1, 2),
}
"""`GRPOConfig` fields, and two that stand for what sets them: calls of `generate` per step (through
`steps_per_generation`) and torch's threads."""


def job_spec(job: Job) -> JobSpec:
    """Return the declared work."""
    return JobSpec(
        name=job.name,
        model=MODELS[job.model],
        workload=MathWorkload(seed=1),
        algorithm=AlgorithmSpec(
            prompts_per_step=job.prompts_per_step,
            group_size=job.group_size,
            max_completion_len=job.lengths.longest,
            loss_aggregation=LossAggregation.SEQ_MEAN_TOKEN_MEAN,
            lr=1e-5,
        ),
    )


def problem(job: Job, settings: Mapping[str, KnobValue]) -> str | None:
    """Return why TRL would refuse, or do other work; None when it runs."""
    calls, rows = settings["generation_calls"], settings["per_device_train_batch_size"]
    assert isinstance(calls, int)
    assert isinstance(rows, int)
    if job.prompts_per_step % calls:
        return f"{job.prompts_per_step} prompts do not make {calls} calls of whole groups"
    if (num_rows(job) // calls) % rows:
        return f"a call of {num_rows(job) // calls} rows is no whole number of micro-batches of {rows}"
    return None


SPACE = Space(
    engine="trl",
    num_jobs=7,
    models=("dense", "moe", "deep"),
    prompts=(4, 8),
    group_sizes=(4,),
    medians=(10.0, 20.0),
    sigmas=(0.2, 0.5, 0.9),
    longest=(48,),
    knobs=KNOBS,
    disturbances=(None,),
    problem=problem,
)
"""7 jobs, 35 trials. Completions of 48 tokens at most keep a step of 16 or 32 rollouts between 0.3 and 3 s."""
