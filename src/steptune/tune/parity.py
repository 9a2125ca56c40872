"""Update parity: recorded batches replayed through the baseline's trainer and the candidate's, from one checkpoint.

Only the moves labelled *none* are replayed, and in the baseline's number format for everything: precision and
staleness owe other proofs.

The shuffled replays are the baseline's own, so a session makes them once: with its first change.
"""

import time

from steptune.core.change import Change
from steptune.core.framework import ParityInput
from steptune.core.knob import Effect, KnobValue
from steptune.core.verdict import Verdict
from steptune.guard.update_parity import check_update_parity
from steptune.tune.context import Context

SHUFFLES = (1, 2, 3)
"""Seeds of the shuffled baseline replays that show how far rounding alone carries."""

NAN = float("nan")
"""A distance that is missing, which no guard passes."""


def update_parity(context: Context, change: Change) -> tuple[Verdict, ...]:
    """Return the verdict on the trainer-side moves of ``change`` that claim to change nothing."""
    moved = {m.knob: m.new for m in change.moves if context.effects[m.knob] is Effect.NONE}
    baseline = context.baseline_settings
    candidate: dict[str, KnobValue] = {**baseline, **moved}
    batches = str(context.batches_dir)
    inputs = [
        ParityInput(settings=baseline, batches_dir=batches),
        ParityInput(settings=candidate, batches_dir=batches),
    ]
    if context.shuffled_band is None:
        inputs += [ParityInput(settings=baseline, batches_dir=batches, shuffle_seed=seed) for seed in SHUFFLES]
    folder = context.run_path("parity", f"{change.signature}-{time.monotonic_ns()}")
    plain, ours, *shuffled = context.framework.replay_updates(context.job, inputs, folder)
    if context.shuffled_band is None:
        context.shuffled_band = tuple(NAN if s.distance_to_first is None else s.distance_to_first for s in shuffled)
    return (
        check_update_parity(
            distance=ours.distance_to_first,
            shuffled_band=context.shuffled_band,
            candidate_grad_norms=ours.grad_norms,
            baseline_grad_norms=plain.grad_norms,
        ),
    )
