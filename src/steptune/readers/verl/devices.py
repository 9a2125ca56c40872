"""How many devices each side of a verl job holds, where the log lets one know."""

from steptune.readers.average import KeptSteps
from steptune.readers.facts import JobFacts
from steptune.readers.values import whole_count
from steptune.readers.verl.timers import Schedule

_WHOLE_TOLERANCE = 1e-3
"""Largest distance of a derived device count from a whole number: above it the quotient is not a count."""


def trainer_devices(kept: KeptSteps, facts: JobFacts, schedule: Schedule) -> float | None:
    """As configured; in a colocated job else from verl's throughput, which divides by all its GPUs."""
    stated = facts.product("trainer.nnodes", "trainer.n_gpus_per_node")
    return stated or (_from_throughput(kept) if schedule is Schedule.SYNC else None)


def rollout_devices(kept: KeptSteps, facts: JobFacts, schedule: Schedule) -> float | None:
    """In a colocated job the trainer's own devices, else as configured."""
    if schedule is Schedule.SYNC:
        return trainer_devices(kept, facts, schedule)
    return facts.product("rollout.nnodes", "rollout.n_gpus_per_node")


def rollout_replicas(devices: float | None, facts: JobFacts) -> int | None:
    """Devices / tensor-parallel size, where both are stated and divide."""
    tensor_parallel = facts.positive_int("actor_rollout_ref.rollout.tensor_model_parallel_size")
    if devices is None or tensor_parallel is None or devices % tensor_parallel:
        return None
    return int(devices // tensor_parallel)


def _from_throughput(kept: KeptSteps) -> float | None:
    """GPUs = tokens / (seconds x tokens per second and GPU), `compute_throughout_metrics` in verl."""
    step = kept.steps[-1]
    keys = ("perf/total_num_tokens", "perf/time_per_step", "perf/throughput")
    tokens, seconds, per_gpu = (step.value(key) for key in keys)
    if not tokens or not seconds or not per_gpu:
        return None
    return whole_count(tokens / (seconds * per_gpu), tolerance=_WHOLE_TOLERANCE)
