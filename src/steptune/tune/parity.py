"""Update parity: recorded batches replayed through the baseline's trainer and the candidate's, from one checkpoint.

Only the moves labelled *none* are replayed, over the baseline's settings for everything else, and in float32 whatever
those say: precision and staleness owe other proofs.

The shuffled replays are the baseline's own, so a session makes them once: with its profile, and a resumed session with
its first winner. The verdict is drawn from a few numbers that go into the journal (`core.parity`), and from nothing
else.
"""

import math
import time

from steptune.core.change import Change
from steptune.core.errors import TrialError
from steptune.core.framework import ParityInput
from steptune.core.knob import KnobValue
from steptune.core.parity import UpdatesReplayed
from steptune.core.verdict import Judgement, Verdict
from steptune.guard.judge import combined, unknown
from steptune.guard.update_parity import NAME, check_update_parity, probe_gap
from steptune.tune.context import Context
from steptune.tune.relabel import replayed_moves, tried_on

SHUFFLES = (1, 2, 3)
"""Seeds of the shuffled baseline replays that show how far rounding alone carries."""

NAN = float("nan")
"""A distance that is missing, which no guard passes."""


def measure_band(context: Context) -> None:
    """Replay the baseline's own updates in shuffled order: how far rounding alone carries."""
    plain = ParityInput(settings=context.baseline_settings, batches_dir=str(context.batches_dir))
    shuffled = [plain.model_copy(update={"shuffle_seed": seed}) for seed in SHUFFLES]
    folder, before_s = context.run_path("parity", "baseline"), context.budget.clock()
    first, *moved = context.framework.replay_updates(context.job, [plain, *shuffled], folder)
    context.replay_s = (context.budget.clock() - before_s) / (1 + len(moved))
    context.shuffled_band = tuple(NAN if s.distance_to_first is None else s.distance_to_first for s in moved)
    context.probe_band = tuple(probe_gap(s.probe_logprobs, first.probe_logprobs) for s in moved)


def replay_winner(context: Context, change: Change) -> UpdatesReplayed:
    """Replay the trainer-side moves of ``change`` that claim to change nothing; a replay that died says why.

    So does one that the budget has no time for, or that takes longer than was thought.
    """
    needed_s, left_s = 2 * (context.replay_s or 0.0), context.budget.wall_left_s()
    if context.runs.is_capped and left_s < needed_s:
        return UpdatesReplayed(problem=f"a replay takes about {needed_s:.1f} s, the budget has {left_s:.1f} s left")
    try:
        with context.orders_within(left_s if context.runs.is_capped else math.inf):
            return _replayed(context, change)
    except (TrialError, MemoryError) as error:
        return UpdatesReplayed(problem=f"the replay could not be run: {error or type(error).__name__}")


def judge_replay(replayed: UpdatesReplayed) -> Verdict:
    """Return the guard's verdict. Pure, so that `report --verify` can ask again."""
    if replayed.problem:
        return combined(NAME, [unknown(replayed.problem)], limit="a replay of recorded updates")
    verdict = check_update_parity(
        distance=_distance(replayed),
        shuffled_band=replayed.shuffled_band,
        probe_gap=replayed.probe_gap,
        probe_band=replayed.probe_band,
        candidate_grad_norms=replayed.candidate_grad_norms,
        baseline_grad_norms=replayed.baseline_grad_norms,
    )
    if verdict.judgement is not Judgement.FAIL or not replayed.distance_by_tensor:
        return verdict
    name, farthest = max(replayed.distance_by_tensor.items(), key=lambda each: (each[1], each[0]))
    return verdict.model_copy(update={"because": f"{verdict.because}; farthest is {name}, {farthest:.2g}"})


def _distance(replayed: UpdatesReplayed) -> float | None:
    """Return the distance over all tensors, from every tensor's own where they are known."""
    if replayed.distance is None or not replayed.distance_by_tensor:
        return replayed.distance
    return math.sqrt(math.fsum(each**2 for each in replayed.distance_by_tensor.values()))


def _replayed(context: Context, change: Change) -> UpdatesReplayed:
    if context.shuffled_band is None:
        measure_band(context)
    assert context.shuffled_band is not None, "it was just measured"
    new = frozenset(tried_on(context.state, context.effects))
    moved = dict(replayed_moves(change, context.effects, new))
    candidate: dict[str, KnobValue] = {**context.baseline_settings, **moved}
    plain = ParityInput(settings=context.baseline_settings, batches_dir=str(context.batches_dir))
    inputs = [plain, plain.model_copy(update={"settings": candidate})]
    folder = context.run_path("parity", f"{change.signature}-{time.monotonic_ns()}")
    baseline, ours = context.framework.replay_updates(context.job, inputs, folder)
    return UpdatesReplayed(
        distance=ours.distance_to_first,
        distance_by_tensor=ours.distance_by_tensor,
        shuffled_band=context.shuffled_band,
        probe_gap=probe_gap(ours.probe_logprobs, baseline.probe_logprobs),
        probe_band=context.probe_band,
        candidate_grad_norms=ours.grad_norms,
        baseline_grad_norms=baseline.grad_norms,
    )
