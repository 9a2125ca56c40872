"""Knobs that several rollout replicas cannot follow. Pure."""

from steptune.core.errors import JobError, explain
from steptune.core.job import JobSpec
from steptune.engine.knobs import EngineKnobs


def replica_conflicts(job: JobSpec, knobs: EngineKnobs) -> tuple[str, ...]:
    """Return every reason why rollout replicas cannot follow ``knobs``; none where there is one and nothing to route.

    >>> replica_conflicts(JobSpec(name="job"), EngineKnobs(rollout_routing="least_tokens"))
    ('rollout_routing chooses between replicas, so it needs rollout_replicas above 1',)
    """
    num, cores, groups = knobs.rollout_replicas, job.devices.num_cores, job.algorithm.prompts_per_step
    if num == 1:
        is_routed = knobs.rollout_routing != "round_robin"
        return ("rollout_routing chooses between replicas, so it needs rollout_replicas above 1",) if is_routed else ()
    reasons = list[str]()
    if knobs.rollout_engine != "embedded":
        reasons.append("rollout_replicas are the embedded engine's: a foreign one is a server of its own")
    if knobs.handover == "alias":
        reasons.append("rollout_replicas are processes of their own, so handover=alias cannot reach them")
    if knobs.partial_rollout is not None:
        reasons.append("partial_rollout stops at the first complete groups, and which these are must not be a race")
    if num * knobs.rollout_threads > cores and knobs.rollout_cores is None:
        threads = f"{num} rollout_replicas of {knobs.rollout_threads} rollout_threads"
        reasons.append(f"{threads} are more threads than the {cores} cores of the job")
    if num > groups:
        reasons.append(f"a group stays on one replica, so {num} rollout_replicas need as many prompts_per_step")
    return tuple(reasons)


def check_replicas(job: JobSpec, knobs: EngineKnobs) -> None:
    """Refuse knobs that rollout replicas cannot follow.

    Raises:
        JobError: see `replica_conflicts`.
    """
    for reason in replica_conflicts(job, knobs):
        raise JobError(
            explain(
                "the rollout's replicas do not fit the other knobs",
                got=reason,
                allowed="rollout_engine = embedded, handover = copy or file, no partial_rollout, no more threads than "
                "cores and no more replicas than prompts",
                hint="set them so in `knobs.pin`, or set `rollout_replicas` to 1",
            )
        )
