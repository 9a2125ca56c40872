"""From the journal to the decision. Pure, so that `report --verify` can draw the same conclusion again."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from steptune.core.decision import Decision, Outcome
from steptune.core.estimate import Estimate
from steptune.core.event import ConfirmationFailed, Confirmed, Forecasted, RewardTested, TrialEnded
from steptune.core.job import Objective
from steptune.core.knob import Effect
from steptune.core.profile import NoiseFloor, Profile
from steptune.core.verdict import Verdict
from steptune.core.work import objective_weight
from steptune.decide.final import Costs, decide
from steptune.decide.owed import OWED_AT_DECISION, undecided
from steptune.decide.tripwires import tripwires
from steptune.guard.judge import WORST_FIRST
from steptune.store.replay import SessionState
from steptune.tune.baseline import NOTHING
from steptune.tune.context import settings_of
from steptune.tune.refuted import Refuted, failed_text, refuted
from steptune.tune.relabel import relabelled_text
from steptune.tune.search_state import SearchState


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Spent:
    """What the whole session took until its decision, the time between its stages included.

    Example: ``Spent(wall_s=540, device_s=1080)`` of a session whose stages took 495 s. A clock says it, so `report
    --verify` takes it from the decision instead of computing it.
    """

    wall_s: float
    device_s: float


def conclude(state: SessionState, found: SearchState, spent: Spent) -> Decision:
    """Return the decision on the search's incumbent.

    Where none was confirmed after a winner that its confirmation has rejected, it is on that winner.
    """
    baseline, started = state.baseline, state.started
    assert baseline is not None, "a session is concluded after its profile"
    assert started is not None, "a session is concluded after its start"
    rejected = refuted(state)
    last = rejected[-1] if rejected and not _is_confirmed(state, found) else None
    winner = last.trial if last else found.incumbent
    change = winner.trial.change if winner else NOTHING
    confirmed = _of_this(state.confirmed, change.signature)
    tested = next((t for t in reversed(state.reward_tests) if t.signature == change.signature), None)
    is_confirmed = confirmed is not None
    planned = state.forecasts.get(winner.trial.number) if winner else None
    return decide(
        change=change,
        num_tried=len(state.ended),
        baseline=settings_of(started.baseline_levers),
        effect=change.effect,
        confirmed_speedup=confirmed.speedup if is_confirmed else None,
        step_speedup=_step_speedup(started.job.objective, confirmed),
        over_best_practice=confirmed.speedup_over_best_practice if is_confirmed else None,
        verdicts=verdicts_on(winner, tested, confirmed) if winner else (),
        noise=_noise(baseline),
        costs=_costs(state, baseline, confirmed, planned, spent),
        holds_for=confirmed.holds_for if is_confirmed else None,
        tripwires=tripwires(
            limits=started.job.limits,
            own_lag=started.job.algorithm.num_updates - 1,
            baseline_step_s=baseline.step_time.value / _weight(started.job.objective, planned),
            baseline_truncated_frac=baseline.health.truncated_frac,
            total_memory_bytes=started.machine.memory_bytes,
        ),
        left_open=() if winner else _given_up(state),
        fault=failed_text(last.confirmation) if last and isinstance(last.confirmation, ConfirmationFailed) else "",
        notes=(
            *_procedure(confirmed),
            *_other_winners(rejected, last, found),
            *relabelled_text(state, found.relabelled, change),
        ),
    )


def _procedure(confirmed: Confirmed | None) -> tuple[str, ...]:
    """Say how the confirmation was measured, where it was not the usual way."""
    because = confirmed.alternate_because if confirmed else ""
    return (f"confirmed in alternate launches, one arm at a time: {because}",) if because else ()


def _is_confirmed(state: SessionState, found: SearchState) -> bool:
    """Return whether the incumbent's own confirmation was measured to its end."""
    signature = found.incumbent.trial.change.signature if found.incumbent else None
    return any(isinstance(each, Confirmed) and each.signature == signature for each in state.confirmations)


def _other_winners(rejected: Sequence[Refuted], last: Refuted | None, found: SearchState) -> tuple[str, ...]:
    """Say which winners a confirmation rejected before this one, and why no other one follows the last."""
    before = tuple(
        f"another lead, {each.trial.trial.change}, was rejected by its confirmation: {'; '.join(each.reasons)}"
        for each in rejected
        if each is not last
    )
    if last is None:
        return before
    if found.incumbent is None:
        return (*before, "no other change that led is free of what the confirmation accuses")
    return (*before, f"the next best that led, {found.incumbent.trial.change}, was not confirmed: the budget was spent")


def _given_up(state: SessionState) -> tuple[str, ...]:
    """Return what guards left open of trials that led, each sentence once."""
    led = (event for event in state.ended if event.outcome is Outcome.ADOPT or event.replayed is not None)
    said = (
        f"{verdict.guard} is inconclusive: {verdict.because}"
        for event in led
        for verdict in undecided(OWED_AT_DECISION[event.trial.change.effect], event.verdicts)
    )
    return tuple(dict.fromkeys(said))


def owes_reward(effect: Effect) -> bool:
    """Return whether a change of this effect class owes a reward test."""
    return effect in (Effect.PRECISION, Effect.STALENESS)


def verdicts_on(winner: TrialEnded, tested: RewardTested | None, confirmed: Confirmed | None) -> tuple[Verdict, ...]:
    """Return every guard's last word on the winner: its worst one, of equals the latest."""
    last: dict[str, Verdict] = {}
    for verdict in (
        *winner.verdicts,
        *(tested.verdicts if tested else ()),
        *(confirmed.verdicts if confirmed else ()),
    ):
        before = last.get(verdict.guard)
        if before is None or WORST_FIRST.index(verdict.judgement) <= WORST_FIRST.index(before.judgement):
            last[verdict.guard] = verdict
    return tuple(last.values())


def _of_this(confirmed: Confirmed | None, signature: str) -> Confirmed | None:
    return confirmed if confirmed is not None and confirmed.signature == signature else None


def _noise(baseline: Profile) -> NoiseFloor:
    assert baseline.noise is not None, "a measured profile has a noise floor"
    return baseline.noise


def _step_speedup(objective: Objective, confirmed: Confirmed | None) -> Estimate | None:
    """Return the gain in step time where the objective counts devices; None where it is the step time itself."""
    if confirmed is None or objective is Objective.STEP_TIME:
        return None
    return next((row.speedup for row in confirmed.objectives if row.objective is Objective.STEP_TIME), None)


def _weight(objective: Objective, winner: Forecasted | None) -> float:
    """Return what the winner's step time counts against the baseline's."""
    return objective_weight(objective, winner.planned, winner.planned_baseline) if winner else 1.0


def _costs(
    state: SessionState, baseline: Profile, confirmed: Confirmed | None, winner: Forecasted | None, spent: Spent
) -> Costs:
    """A step and the tuning are counted in the job's objective: wall seconds, or device-seconds."""
    assert state.started is not None, "a session is concluded after its start"
    step_s, paid_s = baseline.step_time.value, spent.wall_s
    if winner is not None and state.started.job.objective is Objective.DEVICE_SECONDS_PER_STEP:
        step_s, paid_s = step_s * winner.planned_baseline.num_devices, spent.device_s
    return Costs(
        wall_s=spent.wall_s,
        device_s=spent.device_s,
        paid_s=paid_s,
        baseline_step_s=step_s,
        tuned_step_s=step_s / confirmed.speedup.value if confirmed else step_s,
    )
