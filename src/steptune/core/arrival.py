"""What a replica of the rollout holds after a hand-over, against what the trainer handed over.

The surprise: an update at a small learning rate can change no bit of a bf16 replica and be right. So two things are
counted apart: tensors that moved in the trainer's own format, and elements that changed in the replica's.
"""

from steptune.core.records import Record


class Arrival(Record):
    """One hand-over to one replica.

    Example: ``Arrival(version=12, trainer_version=12, num_tensors=38, num_wrong=0, num_moved=38, changed_frac=0.04)``.
    """

    replica: int = 0
    version: int
    """Version that the replica says it holds."""
    trainer_version: int
    """Version that the trainer holds."""
    num_tensors: int
    """Tensors of the trainer's model."""
    num_wrong: int
    """Of them, those that the replica lacks or holds with other bits than the trainer's after the same cast."""
    first_wrong: str = ""
    """Name of the first of these."""
    num_moved: int | None
    """Tensors whose bits in the trainer differ from those of the version before; None for the first version."""
    changed_frac: float | None = None
    """Elements, 0..1, that the hand-over changed in the replica's number format; None where it shares the trainer's
    tensors, or does not keep them as plain ones."""
