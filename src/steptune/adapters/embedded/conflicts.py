"""Why a configuration of the embedded engine cannot run, breaks a limit, or is another algorithm."""

from collections.abc import Iterator

from steptune.core.job import JobSpec
from steptune.engine.compiler import compiler_problem
from steptune.engine.knobs import EngineKnobs
from steptune.engine.plan_shared import can_share_prompts
from steptune.engine.quota.split import split_conflicts
from steptune.engine.replicas.conflicts import replica_conflicts
from steptune.engine.stream.conflicts import stream_conflicts


def conflicts(job: JobSpec, knobs: EngineKnobs) -> tuple[str, ...]:
    """Return every reason against ``knobs``; none means it may be tried."""
    return (*_impossible(job, knobs), *_missing(knobs), *_limits(job, knobs), *_wasteful(job, knobs))


def _impossible(job: JobSpec, knobs: EngineKnobs) -> Iterator[str]:
    overlaps = knobs.schedule != "sync"
    if knobs.rollout_engine != "embedded":
        yield f"rollout_engine={knobs.rollout_engine} cannot be forecast: `steptune train` runs it"
    if knobs.handover == "alias" and overlaps:
        yield "handover=alias needs rollout and trainer in one process"
    if knobs.handover == "alias" and knobs.rollout_dtype != "fp32":
        yield "handover=alias needs the trainer's own number format"
    cores = job.devices.num_cores
    trainer = knobs.train_ranks * knobs.train_threads
    rollout = knobs.rollout_replicas * knobs.rollout_threads
    used = rollout + trainer if overlaps else max(rollout, trainer)
    yield from split_conflicts(cores, knobs)
    yield from stream_conflicts(knobs)
    yield from replica_conflicts(job, knobs)
    if used > cores and knobs.rollout_cores is None:
        yield f"more threads than the {cores} cores of the job"
    is_async = knobs.schedule == "async"
    has_age = is_async or knobs.partial_rollout is not None
    if (knobs.max_lag is not None) != has_age:
        yield "max_lag belongs to schedule=async and to partial_rollout, and they need it"
    if knobs.inflight_update and not is_async:
        yield "inflight_update needs schedule=async"
    if knobs.logprob_batch_tokens is None and job.algorithm.num_updates > 1:
        yield "several updates per batch need a separate old-log-prob pass"
    if knobs.layout == "shared_prefix" and not can_share_prompts(job.model):
        yield "layout=shared_prefix needs a model without recurrent layers: their state cannot fork in mid-sequence"


def _missing(knobs: EngineKnobs) -> Iterator[str]:
    """Yield what this machine lacks."""
    if knobs.compile and (problem := compiler_problem()) is not None:
        yield f"compile needs a C++ compiler: {problem}"


def _limits(job: JobSpec, knobs: EngineKnobs) -> Iterator[str]:
    own, limits = job.algorithm.correction.kind, job.limits
    is_partial = knobs.partial_rollout is not None
    overlaps = knobs.schedule != "sync" or is_partial
    age = job.algorithm.num_updates if knobs.schedule == "one_step_off" else knobs.max_lag
    if overlaps and age is not None and limits.max_staleness < age:
        yield f"limits.max_staleness is {limits.max_staleness}"
    if overlaps and knobs.correction == "none":
        yield f"{'partial_rollout' if is_partial else knobs.schedule} needs an importance-sampling correction"
    if knobs.correction != own and not limits.allow_corrections:
        yield "limits.allow_corrections is false"
    if knobs.correction != own and not overlaps:
        yield "a correction without staleness would change the algorithm"


def _wasteful(job: JobSpec, knobs: EngineKnobs) -> Iterator[str]:
    concurrency = knobs.rollout_concurrency
    is_partial = knobs.partial_rollout is not None
    if concurrency is not None and concurrency >= job.algorithm.rollouts_per_step and not is_partial:
        yield "rollout_concurrency of the whole batch or more is the same as none"
    if knobs.max_lag is not None and knobs.max_lag < job.algorithm.num_updates:
        yield "max_lag below the updates of one step lets nothing overlap or go on"
    if knobs.offload:
        yield "offload frees nothing where the device's memory is the host's"
    if knobs.rollout_replicas > 1 and knobs.handover == "file":
        yield "handover=file to several replicas is measured by nobody: handover=copy goes through memory"
