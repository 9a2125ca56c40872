"""Hand-overs that arrived whole, for frameworks that only pretend: what a real one must show of every step."""

from steptune.core.arrival import Arrival

NUM_TENSORS = 12
"""Tensors of the pretended model."""


def whole_arrival(version: int) -> Arrival:
    """Return the hand-over of ``version``, the trainer's newest, to the one replica."""
    return Arrival(
        version=version,
        trainer_version=version,
        num_tensors=NUM_TENSORS,
        num_wrong=0,
        num_moved=NUM_TENSORS if version else None,
        changed_frac=0.5 if version else None,
    )
