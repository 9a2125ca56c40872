"""`report --verify`: reads the journal with its hash chain and computes every forecast and decision again.

A mismatch of code is reported as such, not as tampering: another version may forecast differently.
"""

from collections.abc import Sequence

from steptune.core.errors import StoreError
from steptune.core.event import Decided, Event, Forecasted, Screened, SessionResumed, SessionStarted, TrialEnded
from steptune.core.knob import KnobSpec
from steptune.core.records import canonical_json, content_hash
from steptune.decide.screen import judge_screen
from steptune.decide.trial import judge_trial
from steptune.forecast.forecast import forecast_change
from steptune.store.codehash import code_hash
from steptune.store.journal import read_journal
from steptune.store.replay import fold
from steptune.store.run_folder import RunFolder
from steptune.tune.conclude import Spent, conclude
from steptune.tune.measured_side import incumbent_of, side_spread
from steptune.tune.screened import screen_cause
from steptune.tune.search_state import search_state


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
            case Screened():
                problems += _check_screening(event, before, index)
            case TrialEnded():
                problems += _check_trial(event, before, index)
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
    again = forecast_change(
        profile=state.baseline,
        planned_baseline=event.planned_baseline,
        planned=event.planned,
        change=event.forecast.change,
        history=event.history,
        total_memory_bytes=state.started.machine.memory_bytes,
        headroom_frac=state.started.job.limits.memory_headroom_frac,
        objective=state.started.job.objective,
    )
    if canonical_json(again) != canonical_json(event.forecast):
        return [f"line {index + 1}: the forecast cannot be recomputed from its inputs"]
    known = {e.trial.change.signature for e in state.ended}
    if any(learnt.change.signature not in known for learnt in event.history):
        return [f"line {index + 1}: the forecast claims to have learnt from a trial that had not ended"]
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
    outcome, reasons = judge_trial(event.trial, event.verdicts, baseline.noise, replay)
    if (outcome, reasons) != (event.outcome, event.reasons):
        return [f"line {index + 1}: the outcome of trial {event.trial.number} does not follow from its verdicts"]
    return []


def _other_code(events: Sequence[Event]) -> list[str]:
    hashes = {e.code_hash for e in events if isinstance(e, SessionStarted | SessionResumed)}
    if hashes - {code_hash()}:
        return ["the run was made by other code than is installed here; the checks below use the installed code"]
    return []
