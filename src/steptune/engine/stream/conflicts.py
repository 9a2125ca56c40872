"""Knobs that a stream of groups cannot follow. Pure."""

from steptune.core.errors import JobError, explain
from steptune.engine.knobs import EngineKnobs


def is_stream(knobs: EngineKnobs) -> bool:
    """Return whether rollouts come from a stream instead of batches."""
    return knobs.schedule == "async" or knobs.partial_rollout is not None


def stream_conflicts(knobs: EngineKnobs) -> tuple[str, ...]:
    """Return every reason why a stream cannot follow ``knobs``; none where batches are generated.

    >>> stream_conflicts(EngineKnobs(schedule="async"))
    ('schedule=async refills slots as rows finish, so it needs compact_finished',)
    """
    if not is_stream(knobs):
        return ()
    name, reasons = f"schedule={knobs.schedule}", list[str]()
    if knobs.partial_rollout is not None:
        name = "partial_rollout"
        if knobs.schedule != "sync":
            reasons.append("partial_rollout belongs to schedule=sync: the others do not wait for their last rows")
    if knobs.rollout_engine != "embedded":
        reasons.append(f"{name} is the embedded engine's: a foreign one has a queue of its own")
    if not knobs.compact_finished:
        reasons.append(f"{name} refills slots as rows finish, so it needs compact_finished")
    if knobs.admit_order != "arrival":
        reasons.append(f"{name} begins a group when slots are free for it: there is no queue to order")
    if knobs.reuse_prefixes:
        reasons.append(f"{name} keeps no finished turns")
    return tuple(reasons)


def check_stream(knobs: EngineKnobs) -> None:
    """Refuse knobs that a stream cannot follow.

    Raises:
        JobError: see `stream_conflicts`.
    """
    for reason in stream_conflicts(knobs):
        raise JobError(
            explain(
                "the schedule does not fit the other knobs",
                got=reason,
                allowed="compact_finished, admit_order = arrival, no reuse_prefixes; partial_rollout with sync only",
                hint="set them so in `knobs.pin`, or use another schedule",
            )
        )
