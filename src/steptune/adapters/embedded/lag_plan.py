"""What a schedule of the engine says beforehand of the age of trained tokens: counted where nobody races.

Ages are those at a step's first update, as `QueueStats.lag_mean` and the owner's limit have them.
"""

from collections.abc import Sequence

from steptune.adapters.embedded.decode_plan import ADMIT_FRAC
from steptune.adapters.embedded.rollout_work import Step, carried, slots_per_replica
from steptune.core.job import JobSpec
from steptune.core.lag import CountedLag, StreamLag
from steptune.engine.knobs import EngineKnobs


def lag_plan(job: JobSpec, knobs: EngineKnobs, steps: Sequence[Step]) -> CountedLag | StreamLag:
    """Return the plan's ages; ``steps`` are the reference lengths."""
    if knobs.schedule == "async":
        return _stream(job, knobs)
    if knobs.partial_rollout is not None:
        return _carried(job, knobs, steps)
    return CountedLag(shares=((0 if knobs.schedule == "sync" else job.algorithm.num_updates, 1.0),))


def _carried(job: JobSpec, knobs: EngineKnobs, steps: Sequence[Step]) -> CountedLag:
    tokens = carried(job, knobs, steps).tokens_by_age
    updates, total = job.algorithm.num_updates, tokens.total()
    return CountedLag(shares=tuple((age * updates, num / total) for age, num in sorted(tokens.items())))


def _stream(job: JobSpec, knobs: EngineKnobs) -> StreamLag:
    assert knobs.max_lag is not None, "an asynchronous run has a bound (`conflicts`)"
    algorithm = job.algorithm
    return StreamLag(
        groups_per_step=algorithm.prompts_per_step,
        group_size=algorithm.group_size,
        updates_per_step=algorithm.num_updates,
        max_lag=knobs.max_lag,
        num_slots=slots_per_replica(job, knobs),
        num_replicas=knobs.rollout_replicas,
        # every group may need the same tokens but for its prompt, so that who has fewest groups has fewest tokens
        routing="fewest_open" if knobs.rollout_routing == "least_tokens" else "in_turn",
        takes_in_flight=knobs.inflight_update,
        admit_frac=ADMIT_FRAC,
        share_prefill=knobs.share_prefill,
    )
