"""What a replay of recorded updates showed of one change, as a few numbers that its verdict can be drawn from again."""

from steptune.core.records import Record


class UpdatesReplayed(Record):
    """The baseline's recorded batches through the trainer of a trial that led, beside the baseline's own replays.

    Example: ``UpdatesReplayed(distance=6.2e-6, distance_by_tensor={"embed.weight": 6.2e-6}, shuffled_band=(4.5e-6,
    5.6e-6, 4.8e-6), probe_gap=3e-6, probe_band=(4.8e-6, 4.1e-6, 4.4e-6), candidate_grad_norms=(0.81, 0.79),
    baseline_grad_norms=(0.81, 0.79))``.
    """

    distance: float | None = None
    """||candidate - baseline|| / ||change of the baseline|| over all parameters after the last update."""
    distance_by_tensor: dict[str, float] = {}
    """The same numerator of every tensor, over the whole denominator: their squares add up to the square of
    ``distance``. Empty where the framework does not tell tensors apart."""
    shuffled_band: tuple[float, ...] = ()
    """``distance`` of the baseline's replays with shuffled micro-batches."""
    probe_gap: float | None = None
    """Root mean square difference of the probe's log-probs, nats."""
    probe_band: tuple[float | None, ...] = ()
    """The same of the shuffled replays."""
    candidate_grad_norms: tuple[float, ...] = ()
    """Of every update, in order."""
    baseline_grad_norms: tuple[float, ...] = ()
    problem: str = ""
    """Why it could not be run; everything else is then empty."""
