"""Every guard that steps alone can answer, over the arms of a trial or of a confirmation.

Pure over the journal, so that `report --verify` asks them again. The surprise: a confirmation is guarded as a trial is.
The claim rests on its launches alone, and a fault that waits for other seeds, for more launches or for answers of
natural length would else leave the tool with a clean trial.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from steptune.core.ages import Ages
from steptune.core.change import Change
from steptune.core.event import Confirmed
from steptune.core.job import JobSpec
from steptune.core.knob import Effect, num_replicas
from steptune.core.trial import Arm, Observation, Trial
from steptune.core.verdict import Verdict
from steptune.guard.entropy_guard import check_entropy
from steptune.guard.length_shift import check_length
from steptune.guard.memory import check_memory
from steptune.guard.mismatch import check_mismatch
from steptune.guard.off_policy import check_off_policy
from steptune.guard.same_work import check_same_work
from steptune.guard.steady import check_steady
from steptune.guard.truncation import check_truncation
from steptune.guard.weights_arrived import check_weights_arrived
from steptune.profile.aggregate import work_signature
from steptune.store.replay import SessionState
from steptune.trial.run import WATCHED
from steptune.tune.context import settings_of


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """Steps that guards look at."""

    compared: Sequence[Observation]
    """The candidate's steps that a ratio counts."""
    candidate: Sequence[Observation]
    """These and all others of it."""
    beside: Sequence[Observation]
    """The arm that took turns with it."""
    floor: Sequence[Observation]
    """The job's baseline: its own range."""


def guard_trial(state: SessionState, trial: Trial) -> tuple[Verdict, ...]:
    """Return every guard's verdict that a trial's own steps can give; none where the candidate never ran."""
    arms = _by_label(trial.arms)
    if not arms:
        return ()
    compared = arms["candidate"]
    seen = Seen(
        compared=compared,
        candidate=(*compared, *arms.get(WATCHED, ())),
        beside=arms["incumbent"],
        floor=_repeat(state),
    )
    return _of_steps(state, trial.change, seen)


def guard_confirmation(state: SessionState, change: Change, confirmed: Confirmed) -> tuple[Verdict, ...]:
    """Return every guard's verdict that a confirmation's launches can give.

    Where no training runs are owed, the answers of natural length are held against the baseline's of the same seed.
    """
    arms = _by_label(confirmed.arms)
    candidate, baseline = arms["candidate"], arms["baseline"]
    seen = Seen(compared=candidate, candidate=candidate, beside=baseline, floor=(*_repeat(state), *baseline))
    answers = _of_answers(confirmed.natural) if change.effect is Effect.NONE else ()
    return (*_of_steps(state, change, seen), *answers)


def ages_of(job: JobSpec) -> Ages:
    """Return the ages that a job's steps may have."""
    return Ages(max_staleness=job.limits.max_staleness, own_lag=job.algorithm.num_updates - 1)


def _of_steps(state: SessionState, change: Change, seen: Seen) -> tuple[Verdict, ...]:
    assert state.started is not None, "steps are seen after the session's start"
    job, machine, candidate = state.started.job, state.started.machine, seen.candidate
    work, settings = work_signature(job), change.applied_to(settings_of(state.started.baseline_levers))
    return (
        check_same_work(candidate_work=work, baseline_work=work, candidate=seen.compared, baseline=seen.beside),
        check_mismatch(
            candidate,
            seen.floor,
            max_mismatch_k3=job.limits.max_mismatch_k3,
            is_same_maths=change.effect is Effect.NONE,
        ),
        check_off_policy(
            candidate,
            seen.floor,
            max_staleness=job.limits.max_staleness,
            own_lag=job.algorithm.num_updates - 1,
            has_correction=settings.get("correction", "none") != "none",
            allow_corrections=job.limits.allow_corrections or job.algorithm.correction.kind != "none",
        ),
        check_steady(candidate, seen.beside, ages=ages_of(job)),
        check_entropy(candidate, seen.floor),
        check_memory(candidate, total_bytes=machine.memory_bytes, headroom_frac=job.limits.memory_headroom_frac),
        check_weights_arrived(candidate, num_replicas=num_replicas(settings)),
    )


def _of_answers(natural: Sequence[Arm]) -> tuple[Verdict, ...]:
    """Judge lengths and truncation of runs that share problems and dice; S = step, the same in both arms.

    Not measured is no pairs, which no guard passes.
    """
    arms = _by_label(natural)
    baseline, candidate = arms.get("baseline", ()), arms.get("candidate", ())
    return (
        check_length(baseline_len_S=_lengths(baseline), candidate_len_S=_lengths(candidate)),
        check_truncation(
            baseline_truncated_S=[step.truncated_frac for step in baseline],
            candidate_truncated_S=[step.truncated_frac for step in candidate],
        ),
    )


def _lengths(steps: Sequence[Observation]) -> list[float]:
    return [step.completion_tokens / step.num_rollouts for step in steps]


def _by_label(arms: Sequence[Arm]) -> dict[str, tuple[Observation, ...]]:
    return {arm.label: arm.observations for arm in arms}


def _repeat(state: SessionState) -> tuple[Observation, ...]:
    """Return the steps of both arms of the A/A repeat."""
    return tuple(step for arm in state.baseline_arms for step in arm.observations)
