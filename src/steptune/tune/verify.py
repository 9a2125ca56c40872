"""`report --verify`: reads the journal with its hash chain and computes every forecast, verdict and decision again.

Guards are asked again over the recorded steps and replays, and a confirmed gain is taken again from its launches. What
is believed is what was measured: steps, accuracies, and how far replayed parameters lie apart. Journals from before
replays were recorded have a verdict on them alone, which is believed where other code made it.
A mismatch of code is reported as such, not as tampering: another version may forecast differently.
"""

from collections.abc import Sequence

from steptune.core.errors import StoreError
from steptune.core.event import (
    Confirmed,
    Decided,
    Event,
    Forecasted,
    HalfReplayed,
    RewardTested,
    Screened,
    SessionResumed,
    SessionStarted,
    TrialEnded,
)
from steptune.core.knob import KnobSpec
from steptune.core.records import canonical_json, content_hash
from steptune.core.verdict import Judgement, Verdict
from steptune.core.work import objective_weight
from steptune.decide.half import half_ratio
from steptune.decide.screen import judge_screen
from steptune.decide.trial import judge_trial
from steptune.forecast.forecast import forecast_change
from steptune.forecast.lag.forecast import with_lag
from steptune.guard import update_parity
from steptune.guard.launches import by_launch
from steptune.store.codehash import code_hash
from steptune.store.journal import read_journal
from steptune.store.replay import SessionState, fold
from steptune.store.run_folder import RunFolder
from steptune.tune.conclude import Spent, conclude
from steptune.tune.launches import launch_ratio
from steptune.tune.measured_side import incumbent_of, side_spread
from steptune.tune.parity import judge_replay
from steptune.tune.reward_guards import guard_training
from steptune.tune.screened import screen_cause
from steptune.tune.search_state import search_state
from steptune.tune.step_guards import guard_confirmation, guard_trial


def verify(folder: RunFolder, specs: Sequence[KnobSpec]) -> list[str]:
    """Return every disagreement found; an empty list means the run folder holds what it claims."""
    try:
        events = [entry.body for entry in read_journal(folder.journal_path)]
        fold(events)
    except StoreError as error:
        return [str(error)]
    return verify_events(events, specs)


def verify_events(events: Sequence[Event], specs: Sequence[KnobSpec]) -> list[str]:
    """Return every forecast, outcome and decision of a whole journal that cannot be computed again from it."""
    problems = _other_code(events)
    effects = {spec.name: spec.effect for spec in specs}
    for index, event in enumerate(events):
        before = events[:index]
        match event:
            case Forecasted():
                problems += _check_forecast(event, before, index)
            case HalfReplayed():
                problems += _check_half(event, before, index)
            case Screened():
                problems += _check_screening(event, before, index)
            case TrialEnded():
                problems += _check_trial(event, before, index)
            case RewardTested():
                problems += _check_training(event, before, index)
            case Confirmed():
                problems += _check_confirmed(event, before, index)
            case Decided():
                state = fold(before)
                spent = Spent(wall_s=event.decision.cost_wall_s, device_s=event.decision.cost_device_s)
                again = conclude(state, search_state(state, effects), spent)
                if canonical_json(again) != canonical_json(event.decision):
                    problems.append(f"line {index + 1}: the decision does not follow from the journal before it")
            case _:
                continue
    return problems


def _check_forecast(event: Forecasted, before: Sequence[Event], index: int) -> list[str]:
    state = fold(before)
    if state.baseline is None or state.started is None:
        return [f"line {index + 1}: a forecast before the profile"]
    if event.forecast.profile_hash != content_hash(state.baseline):
        return [f"line {index + 1}: the forecast was made from another profile"]
    again = with_lag(
        forecast_change(
            profile=state.baseline,
            planned_baseline=event.planned_baseline,
            planned=event.planned,
            change=event.forecast.change,
            history=event.history,
            total_memory_bytes=state.started.machine.memory_bytes,
            headroom_frac=state.started.job.limits.memory_headroom_frac,
            objective=state.started.job.objective,
        ),
        profile=state.baseline,
        planned_baseline=event.planned_baseline,
        planned=event.planned,
        history=event.history,
    )
    if canonical_json(again) != canonical_json(event.forecast):
        return [f"line {index + 1}: the forecast cannot be recomputed from its inputs"]
    known = {e.trial.change.signature for e in state.ended} | {half.change.signature for half in state.halves}
    if any(learnt.change.signature not in known for learnt in event.history):
        return [f"line {index + 1}: the forecast claims to have learnt from what was not measured before it"]
    return []


def _check_half(event: HalfReplayed, before: Sequence[Event], index: int) -> list[str]:
    if half_ratio(event.times, event.beside_ratio, side_spread(fold(before), event.side)) != event.ratio:
        return [f"line {index + 1}: the ratio of the replayed {event.side} half does not follow from its times"]
    return []


def _check_screening(event: Screened, before: Sequence[Event], index: int) -> list[str]:
    state = fold(before)
    if state.baseline is None or state.baseline.noise is None:
        return [f"line {index + 1}: a replay before the profile"]
    started = next(trial for trial in state.running if trial.number == event.number)  # `fold` has seen to it
    measured = incumbent_of(state, started.incumbent_signature, event.side)
    again = judge_screen(
        event.times,
        incumbent_step_s=measured.step_s,
        booked_s=measured.booked_s,
        devices_ratio=event.devices_ratio,
        noise=state.baseline.noise,
        spread=side_spread(state, event.side),
    )
    if (again.ratio, again.goes_on, again.because) != (event.ratio, event.goes_on, event.because):
        return [f"line {index + 1}: what the replay of trial {event.number} decided does not follow from its times"]
    return []


def _check_trial(event: TrialEnded, before: Sequence[Event], index: int) -> list[str]:
    state = fold(before)
    baseline = state.baseline
    screened = state.screening_of(event.trial.number, event.trial.change.signature)
    if baseline is None or baseline.noise is None:
        return [f"line {index + 1}: a trial before the profile"]
    if screened is not None and not screened.goes_on and event.trial.cause != screen_cause(screened):
        return [f"line {index + 1}: trial {event.trial.number} went on although its replay had ended it"]
    replay = None if screened is None else screened.ratio
    of_steps = tuple(verdict for verdict in event.verdicts if verdict.guard != update_parity.NAME)
    if _differ(of_steps, guard_trial(state, event.trial)):
        return [f"line {index + 1}: the guards' verdicts on trial {event.trial.number} do not follow from its steps"]
    if problem := _check_replay(event, state):
        return [f"line {index + 1}: {problem}"]
    outcome, reasons = judge_trial(event.trial, event.verdicts, baseline.noise, replay)
    if (outcome, reasons) != (event.outcome, event.reasons):
        return [f"line {index + 1}: the outcome of trial {event.trial.number} does not follow from its verdicts"]
    return []


def _check_replay(event: TrialEnded, state: SessionState) -> str:
    """Return why the verdict on a trial's replayed updates cannot be; empty where it follows from them."""
    said = tuple(verdict for verdict in event.verdicts if verdict.guard == update_parity.NAME)
    if event.replayed is None:
        is_ours = state.started is not None and state.started.code_hash == code_hash()
        return f"trial {event.trial.number} has a verdict on updates that were not replayed" if said and is_ours else ""
    if _differ(said, (judge_replay(event.replayed),)):
        return f"the verdict on the updates of trial {event.trial.number} does not follow from their replay"
    return ""


def _check_training(event: RewardTested, before: Sequence[Event], index: int) -> list[str]:
    state = fold(before)
    ended = next((each for each in reversed(state.ended) if each.trial.change.signature == event.signature), None)
    if ended is None or state.started is None:
        return [f"line {index + 1}: a reward test of a change that was not tried"]
    is_skipped = not event.start_S and all(v.judgement is Judgement.INCONCLUSIVE for v in event.verdicts)
    again = guard_training(event, ended.trial.change.effect, state.started.job.limits)
    if is_skipped or not _differ(event.verdicts, again):
        return []
    return [f"line {index + 1}: the verdicts on the training runs do not follow from them"]


def _check_confirmed(event: Confirmed, before: Sequence[Event], index: int) -> list[str]:
    state = fold(before)
    ended = next((each for each in reversed(state.ended) if each.trial.change.signature == event.signature), None)
    if ended is None or state.started is None:
        return [f"line {index + 1}: a confirmation of a change that was not tried"]
    problems: list[str] = []
    if _differ(event.verdicts, guard_confirmation(state, ended.trial.change, event)):
        problems.append(f"line {index + 1}: the guards' verdicts on the confirmation do not follow from its steps")
    planned = state.forecasts[ended.trial.number]
    weight = objective_weight(state.started.job.objective, planned.planned, planned.planned_baseline)
    arms = {arm.label: by_launch(arm.observations) for arm in event.arms}
    launches = [[[tuple(a)], [tuple(b)]] for a, b in zip(arms["baseline"], arms["candidate"], strict=True)]
    if launch_ratio(launches, 0, 1, (1.0, weight)) != event.speedup:
        problems.append(f"line {index + 1}: the confirmed gain does not follow from its launches")
    return problems


def _differ(recorded: Sequence[Verdict], again: Sequence[Verdict]) -> bool:
    return [canonical_json(verdict) for verdict in recorded] != [canonical_json(verdict) for verdict in again]


def _other_code(events: Sequence[Event]) -> list[str]:
    hashes = {e.code_hash for e in events if isinstance(e, SessionStarted | SessionResumed)}
    if hashes - {code_hash()}:
        return ["the run was made by other code than is installed here; the checks below use the installed code"]
    return []
