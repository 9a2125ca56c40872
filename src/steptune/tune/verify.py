"""`report --verify`: reads the journal with its hash chain and computes every forecast and decision again.

A mismatch of code is reported as such, not as tampering: another version may forecast differently.
"""

from collections.abc import Sequence

from steptune.core.errors import StoreError
from steptune.core.event import Decided, Event, Forecasted, SessionResumed, SessionStarted, TrialEnded
from steptune.core.knob import KnobSpec
from steptune.core.records import canonical_json, content_hash
from steptune.decide.trial import judge_trial
from steptune.forecast.forecast import forecast_change
from steptune.store.codehash import code_hash
from steptune.store.journal import read_journal
from steptune.store.replay import fold
from steptune.store.run_folder import RunFolder
from steptune.tune.conclude import Spent, conclude
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


def _check_trial(event: TrialEnded, before: Sequence[Event], index: int) -> list[str]:
    baseline = fold(before).baseline
    if baseline is None or baseline.noise is None:
        return [f"line {index + 1}: a trial before the profile"]
    outcome, reasons = judge_trial(event.trial, event.verdicts, baseline.noise)
    if (outcome, reasons) != (event.outcome, event.reasons):
        return [f"line {index + 1}: the outcome of trial {event.trial.number} does not follow from its verdicts"]
    return []


def _other_code(events: Sequence[Event]) -> list[str]:
    hashes = {e.code_hash for e in events if isinstance(e, SessionStarted | SessionResumed)}
    if hashes - {code_hash()}:
        return ["the run was made by other code than is installed here; the checks below use the installed code"]
    return []
