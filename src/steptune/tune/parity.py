"""Update parity: recorded batches replayed through the baseline's trainer and the candidate's, from one checkpoint.

Only the moves labelled *none* are replayed, over the baseline's settings for everything else, and in float32 whatever
those say: precision and staleness owe other proofs.

The shuffled replays are the baseline's own, so a session makes them once: with its profile, and a resumed session with
its first winner.
"""

import time

from steptune.core.change import Change
from steptune.core.framework import ParityInput
from steptune.core.knob import Effect, KnobValue
from steptune.core.verdict import Verdict
from steptune.guard.update_parity import check_update_parity, probe_gap
from steptune.tune.context import Context

SHUFFLES = (1, 2, 3)
"""Seeds of the shuffled baseline replays that show how far rounding alone carries."""

NAN = float("nan")
"""A distance that is missing, which no guard passes."""


def measure_band(context: Context) -> None:
    """Replay the baseline's own updates in shuffled order: how far rounding alone carries."""
    plain = ParityInput(settings=context.baseline_settings, batches_dir=str(context.batches_dir))
    shuffled = [plain.model_copy(update={"shuffle_seed": seed}) for seed in SHUFFLES]
    folder = context.run_path("parity", "baseline")
    first, *moved = context.framework.replay_updates(context.job, [plain, *shuffled], folder)
    context.shuffled_band = tuple(NAN if s.distance_to_first is None else s.distance_to_first for s in moved)
    context.probe_band = tuple(probe_gap(s.probe_logprobs, first.probe_logprobs) for s in moved)


def update_parity(context: Context, change: Change) -> tuple[Verdict, ...]:
    """Return the verdict on the trainer-side moves of ``change`` that claim to change nothing."""
    if context.shuffled_band is None:
        measure_band(context)
    assert context.shuffled_band is not None, "it was just measured"
    moved = {m.knob: m.new for m in change.moves if context.effects[m.knob] is Effect.NONE}
    candidate: dict[str, KnobValue] = {**context.baseline_settings, **moved}
    plain = ParityInput(settings=context.baseline_settings, batches_dir=str(context.batches_dir))
    inputs = [plain, plain.model_copy(update={"settings": candidate})]
    folder = context.run_path("parity", f"{change.signature}-{time.monotonic_ns()}")
    baseline, ours = context.framework.replay_updates(context.job, inputs, folder)
    return (
        check_update_parity(
            distance=ours.distance_to_first,
            shuffled_band=context.shuffled_band,
            probe_gap=probe_gap(ours.probe_logprobs, baseline.probe_logprobs),
            probe_band=context.probe_band,
            candidate_grad_norms=ours.grad_norms,
            baseline_grad_norms=baseline.grad_norms,
        ),
    )
