"""Counts the rollout's work of a step: decode iterations and prefills, of several replicas the slowest one's."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from steptune.adapters.embedded.carry_plan import carried_counts
from steptune.adapters.embedded.decode_plan import StreamCounts, running_rows, stream_counts
from steptune.core.job import JobSpec
from steptune.core.knob import KnobValue
from steptune.core.phase import Role
from steptune.core.work import WorkItem
from steptune.engine.knobs import EngineKnobs
from steptune.engine.routing import RULES, group_tokens, route
from steptune.engine.stream.carry import carry_bound

REPLICATED = "_replicated"
"""Ends the names of cost curves that were measured with all rollout replicas at work (`engine.probe_replicas`)."""

Step = tuple[Sequence[int], Sequence[int]]
"""Prompt and completion lengths of one step's rows."""

Count = Callable[[JobSpec, EngineKnobs, Sequence[Step]], tuple[WorkItem, ...]]


def rollout_count(knobs: EngineKnobs) -> Count:
    """Return how the rollout of these knobs is counted."""
    if knobs.partial_rollout is not None:
        return carried_items
    return stream_items if knobs.schedule == "async" else rollout_items


def rollout_items(job: JobSpec, knobs: EngineKnobs, steps: Sequence[Step]) -> tuple[WorkItem, ...]:
    """Return decode and prefill work per step, averaged over ``steps``; of several replicas the slowest one's."""
    total = StreamCounts()
    for step in steps:
        longest = max(step[0])  # a share's prompts are padded as the whole batch's are
        total.add(slowest([_batch_counts(job, knobs, share, longest) for share in shares(job, knobs, step)]))
    return _priced_rollout(knobs, total.decode, total.prefill, len(steps))


def _batch_counts(job: JobSpec, knobs: EngineKnobs, step: Step, longest: int) -> StreamCounts:
    """Return what one engine does with its rows of a batch."""
    prompt_B, completion_B = step
    counts, admissions = running_rows(
        completion_B, concurrency=knobs.rollout_concurrency, continuous=knobs.compact_finished
    )
    rows = len(prompt_B) // job.algorithm.group_size if knobs.share_prefill else len(prompt_B)
    parts = 1 if knobs.share_prefill else admissions
    return StreamCounts(decode=counts, prefill=Counter({round(rows * (longest - 1) / parts): parts}))


def stream_items(job: JobSpec, knobs: EngineKnobs, steps: Sequence[Step]) -> tuple[WorkItem, ...]:
    """Return a stream's decode and prefill work per step, averaged over ``steps``.

    The slots are filled across the ends of steps. Without `inflight_update` they run empty before new weights are
    taken, where the rollout is the slower side: once in as many steps as may be ahead (`ahead.rollout_side`). Where
    the trainer is the slower side they run empty more often, and nothing waits for them. Of several replicas the work
    is the slowest one's; that a replica which is behind is handed less (`ahead.deal`) is not counted.
    """
    assert knobs.max_lag is not None, "an asynchronous run has a bound (`conflicts`)"
    total, size = StreamCounts(), job.algorithm.group_size
    span = len(steps) if knobs.inflight_update else steps_ahead(job, knobs)
    for first in range(0, len(steps), span):
        chunk = steps[first : first + span]
        rows = (
            [length for prompt_B, _ in chunk for length in prompt_B],
            [length for _, completion_B in chunk for length in completion_B],
        )
        counts = [
            stream_counts(
                *share,
                group_size=size,
                num_slots=slots_per_replica(job, knobs),
                share_prefill=knobs.share_prefill,
            )
            for share in shares(job, knobs, rows)
        ]
        total.add(slowest(counts))
    return _priced_rollout(knobs, total.decode, total.prefill, len(steps))


def shares(job: JobSpec, knobs: EngineKnobs, rows: Step) -> list[Step]:
    """Return the rows of each rollout replica that has any, by the engine's own rule."""
    if knobs.rollout_replicas == 1:
        return [rows]
    size, (prompts, completions) = job.algorithm.group_size, rows
    starts, limits = range(0, len(prompts), size), [job.algorithm.max_completion_len] * size
    tokens = [group_tokens(prompts[s : s + size], limits, share_prefill=knobs.share_prefill) for s in starts]
    found: list[tuple[list[int], list[int]]] = [([], []) for _ in range(knobs.rollout_replicas)]
    for group, replica in route(RULES[knobs.rollout_routing], tokens, [0.0] * knobs.rollout_replicas, 0):
        found[replica][0].extend(prompts[group * size : (group + 1) * size])
        found[replica][1].extend(completions[group * size : (group + 1) * size])
    return [share for share in found if share[0]]


def slowest(counts: Sequence[StreamCounts]) -> StreamCounts:
    """Return the work of the replica that takes most iterations, and of several such that has most rows in them."""
    return max(counts, key=lambda c: (c.decode.total(), sum(rows * n for rows, n in c.decode.items())))


def steps_ahead(job: JobSpec, knobs: EngineKnobs) -> int:
    """Return how many steps' groups a stream may have begun: it runs empty, and takes new weights, once in as many.

    Loads are seen more often (0.9 to 1.4 a step at a lag of one, 0.55 at two, in three jobs of the first prospective
    campaign), but steps are not longer for it: counted so, four of five such steps were forecast 6 to 18 % too long.
    """
    return 1 + (knobs.max_lag or 0) // job.algorithm.num_updates


def carried_items(job: JobSpec, knobs: EngineKnobs, steps: Sequence[Step]) -> tuple[WorkItem, ...]:
    """Return decode and prefill work of a run whose unfinished rows go on in the next step, per step."""
    counts = carried(job, knobs, steps)
    return _priced_rollout(knobs, counts.decode, counts.prefill, len(steps))


def carried(job: JobSpec, knobs: EngineKnobs, steps: Sequence[Step]) -> StreamCounts:
    """Count ``steps`` of a run whose unfinished rows go on in the next one."""
    bound, size = carry_bound(job, knobs), job.algorithm.group_size
    num_rows = bound.capacity * size
    return carried_counts(
        [[length for prompt_B, _ in steps for length in prompt_B], [n for _, lengths_B in steps for n in lengths_B]],
        group_size=size,
        per_step=bound.groups_per_step,
        capacity=bound.capacity,
        max_lag_steps=bound.max_lag // bound.updates_per_step,
        num_slots=min(knobs.rollout_concurrency or num_rows, num_rows),
        share_prefill=knobs.share_prefill,
    )


def slots_per_replica(job: JobSpec, knobs: EngineKnobs) -> int:
    """Return the rows that one replica of a stream decodes at once (`ahead.rollout_side.slots_of`)."""
    num_slots = math.ceil(job.algorithm.prompts_per_step / knobs.rollout_replicas) * job.algorithm.group_size
    return min(knobs.rollout_concurrency or num_slots, num_slots)


def _priced_rollout(
    knobs: EngineKnobs, decode: Mapping[int, float], prefill: Mapping[int, float], num_steps: int
) -> tuple[WorkItem, ...]:
    when: dict[str, KnobValue] = {"rollout_threads": knobs.rollout_threads, "rollout_dtype": knobs.rollout_dtype}
    if knobs.rollout_replicas > 1:
        when["rollout_replicas"] = knobs.rollout_replicas
    return (
        *work_items(Role.ROLLOUT, "rollout/decode", f"decode{replicated(knobs)}", when, decode, num_steps),
        *work_items(Role.ROLLOUT, "rollout/prefill", f"prefill{replicated(knobs)}", when, prefill, num_steps),
    )


def replicated(knobs: EngineKnobs) -> str:
    """Return the end of a curve's name: what several replicas take is measured with all of them at work."""
    return "" if knobs.rollout_replicas == 1 else REPLICATED


def work_items(
    role: Role, phase: str, curve: str, when: dict[str, KnobValue], counts: Mapping[int, float], num_steps: int
) -> tuple[WorkItem, ...]:
    """Return one item for every size ``counts`` has, each as often as a step has it."""
    return tuple(
        WorkItem(role=role, phase=phase, curve=curve, when=when, x=x, count=count / num_steps)
        for x, count in sorted(counts.items())
    )
