"""Why a configuration of the embedded engine cannot run, breaks a limit, or is another algorithm."""

from collections.abc import Iterator

from steptune.core.job import JobSpec
from steptune.engine.knobs import EngineKnobs
from steptune.engine.plan_shared import can_share_prompts
from steptune.engine.quota.split import split_conflicts


def conflicts(job: JobSpec, knobs: EngineKnobs) -> tuple[str, ...]:
    """Return every reason against ``knobs``; none means it may be tried."""
    return (*_impossible(job, knobs), *_limits(job, knobs), *_wasteful(job, knobs))


def _impossible(job: JobSpec, knobs: EngineKnobs) -> Iterator[str]:
    is_off = knobs.schedule == "one_step_off"
    if knobs.handover == "alias" and is_off:
        yield "handover=alias needs rollout and trainer in one process"
    if knobs.handover == "alias" and knobs.rollout_dtype != "fp32":
        yield "handover=alias needs the trainer's own number format"
    cores = job.devices.num_cores
    used = knobs.rollout_threads + knobs.train_threads if is_off else max(knobs.rollout_threads, knobs.train_threads)
    yield from split_conflicts(cores, knobs)
    if used > cores and knobs.rollout_cores is None:
        yield f"more threads than the {cores} cores of the job"
    if knobs.logprob_batch_tokens is None and job.algorithm.num_updates > 1:
        yield "several updates per batch need a separate old-log-prob pass"
    if knobs.layout == "shared_prefix" and not can_share_prompts(job.model):
        yield "layout=shared_prefix needs a model without recurrent layers: their state cannot fork in mid-sequence"


def _limits(job: JobSpec, knobs: EngineKnobs) -> Iterator[str]:
    own, limits = job.algorithm.correction.kind, job.limits
    is_off = knobs.schedule == "one_step_off"
    if is_off and limits.max_staleness < job.algorithm.num_updates:
        yield f"limits.max_staleness is {limits.max_staleness}"
    if is_off and knobs.correction == "none":
        yield "one_step_off needs an importance-sampling correction"
    if knobs.correction != own and not limits.allow_corrections:
        yield "limits.allow_corrections is false"
    if knobs.correction != own and not is_off:
        yield "a correction without staleness would change the algorithm"


def _wasteful(job: JobSpec, knobs: EngineKnobs) -> Iterator[str]:
    concurrency = knobs.rollout_concurrency
    if concurrency is not None and concurrency >= job.algorithm.rollouts_per_step:
        yield "rollout_concurrency of the whole batch or more is the same as none"
    if knobs.offload:
        yield "offload frees nothing where the device's memory is the host's"
