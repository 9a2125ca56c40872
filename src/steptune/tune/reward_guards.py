"""Every guard that a reward test answers, read off its record alone, so that `report --verify` asks them again.

A run that died stands there as NaN or as no gaps at all, which no guard passes.
"""

from steptune.core.event import RewardTested
from steptune.core.job import LimitsSpec
from steptune.core.knob import Effect
from steptune.core.verdict import Verdict
from steptune.decide.owed import OWED_OF_TRAINING, REWARD_RATE
from steptune.guard.gap_growth import check_gap_growth
from steptune.guard.length_shift import check_length
from steptune.guard.reward import check_reward
from steptune.guard.reward_rate import check_reward_rate, unanswered
from steptune.guard.truncation import check_truncation


def guard_training(tested: RewardTested, effect: Effect, limits: LimitsSpec) -> tuple[Verdict, ...]:
    """Return every guard's verdict on the paired runs of ``tested``, whose own verdicts are not read."""
    verdicts = (
        _said_if_short(
            tested,
            check_reward(
                start_S=tested.start_S,
                baseline_S=tested.baseline_S,
                candidate_S=tested.candidate_S,
                margin=limits.reward_margin,
            ),
        ),
        check_gap_growth(
            candidate_k3_SK=tested.candidate_k3_SK,
            baseline_k3_SK=tested.baseline_k3_SK,
            max_mismatch_k3=limits.max_mismatch_k3,
        ),
        check_truncation(
            baseline_truncated_S=tested.baseline_truncated_S, candidate_truncated_S=tested.candidate_truncated_S
        ),
        check_length(baseline_len_S=tested.baseline_len_S, candidate_len_S=tested.candidate_len_S),
    )
    return verdicts if REWARD_RATE not in OWED_OF_TRAINING[effect] else (*verdicts, _rate(tested))


def _said_if_short(tested: RewardTested, verdict: Verdict) -> Verdict:
    """Return ``verdict`` with what fewer pairs than were planned could still see."""
    num_pairs = len(tested.baseline_S)
    if tested.num_planned is None or num_pairs >= tested.num_planned:
        return verdict
    drop = verdict.detectable
    seen = "they show no drop of any size" if drop is None else f"the smallest drop they could see is {drop.value:.3g}"
    said = f"{num_pairs} of {tested.num_planned} pairs before the test's share of the budget ended: {seen}"
    return verdict.model_copy(update={"because": f"{verdict.because}; {said}"})


def _rate(tested: RewardTested) -> Verdict:
    """Return the verdict at equal device time."""
    if tested.equal_time_step is None:
        return unanswered("no trial measured it faster by a step of the test, so no equal device time was looked at")
    return check_reward_rate(
        baseline_equal_S=tested.baseline_equal_S, baseline_end_S=tested.baseline_S, candidate_S=tested.candidate_S
    )
