"""Rebuilds what a session knows from its journal, for `--resume` and for the report. Pure.

It also holds the order of events to the drawing in `core.event`: a forecast that stands after its trial, a trial
that ends without having started, or an event before the start is refused even where every hash is right.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from steptune.core.bottleneck import Bottleneck
from steptune.core.decision import Decision
from steptune.core.errors import StoreError, explain
from steptune.core.event import (
    ConfirmationFailed,
    Confirmed,
    Decided,
    Diagnosed,
    Event,
    Forecasted,
    HalfReplayed,
    Profiled,
    Proposed,
    Reserved,
    RewardTested,
    Screened,
    SessionEnded,
    SessionResumed,
    SessionStarted,
    TrialEnded,
    TrialStarted,
    Waterfall,
)
from steptune.core.profile import Profile
from steptune.core.trial import Arm


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionState:
    """What is known after some events. Everything not reached yet is None or empty."""

    started: SessionStarted | None = None
    num_resumes: int = 0
    baseline: Profile | None = None
    baseline_arms: tuple[Arm, ...] = ()
    """Both arms of the A/A repeat."""
    start_up_s: float | None = None
    """Seconds of a launch, as the latest event that says so has it."""
    evaluate_s: float | None = None
    """Seconds of an evaluation, of the profile."""
    tuned: Profile | None = None
    bottlenecks: tuple[Bottleneck, ...] | None = None
    proposed: Proposed | None = None
    forecasts: Mapping[int, Forecasted] = field(default_factory=dict[int, Forecasted])
    """Latest forecast of each trial number."""
    waterfall_forecasts: Mapping[int, Forecasted] = field(default_factory=dict[int, Forecasted])
    """Latest forecast of each row of a waterfall."""
    running: tuple[TrialStarted, ...] = ()
    """Trials that started and have no result: after a crash, the ones to run again."""
    screened: Mapping[int, Screened] = field(default_factory=dict[int, Screened])
    """The one-sided replay of each trial number that had one."""
    halves: tuple[HalfReplayed, ...] = ()
    """Replays of one side of changes that touch both, in order."""
    ended: tuple[TrialEnded, ...] = ()
    """Trials with a result, in the order they ended."""
    reserved: Reserved | None = None
    """What was kept for the latest winner."""
    reward_tests: tuple[RewardTested, ...] = ()
    waterfalls: tuple[Waterfall, ...] = ()
    """One per winner of the search: a failed reward test may bring another winner."""
    confirmations: tuple[Confirmed | ConfirmationFailed, ...] = ()
    """In order: another winner's may follow one that showed a fault."""
    confirmed: Confirmed | None = None
    """The latest that was measured to its end."""
    decision: Decision | None = None
    session_ended: SessionEnded | None = None
    """None again after a resume."""

    def screening_of(self, number: int, signature: str) -> Screened | None:
        """Return the replay of trial ``number``, if it was of that change: a resumed session may choose another."""
        found = self.screened.get(number)
        return found if found is not None and found.signature == signature else None

    @property
    def running_numbers(self) -> tuple[int, ...]:
        """Numbers of the trials that started and have no result."""
        return tuple(trial.number for trial in self.running)

    @property
    def ended_numbers(self) -> tuple[int, ...]:
        """Numbers of the trials that have a result."""
        return tuple(event.trial.number for event in self.ended)


def fold(events: Iterable[Event]) -> SessionState:
    """Return the state after ``events``, in order.

    Raises:
        StoreError: an event stands where it cannot; names its line.
    """
    state = SessionState()
    for number, event in enumerate(events, 1):
        if problem := _misplaced(state, event):
            what = f"line {number} of the journal cannot stand where it does"
            hint = "the run folder was not written by a session; start a new run"
            raise StoreError(explain(what, got=f"{event.kind}: {problem}", allowed="the order of a session", hint=hint))
        state = _after(state, event)
    return state


def _misplaced(state: SessionState, event: Event) -> str | None:
    """Return why ``event`` cannot follow, or None."""
    if (state.started is None) != isinstance(event, SessionStarted):
        return "a session starts once, and first"
    if state.session_ended is not None and not isinstance(event, SessionResumed):
        return "the session has ended"
    match event:
        case Forecasted(purpose="trial", trial_number=number) if number in _begun(state):
            return f"the forecast of trial {number} is written after the trial started"
        case HalfReplayed(trial_number=number) if number in _begun(state):
            return f"the half is replayed after trial {number} started"
        case Forecasted(purpose="waterfall", trial_number=number) if event.forecast.change.signature in _rows(state):
            return f"the forecast of row {number} is written after the waterfall that measured it"
        case TrialStarted() | Screened() | TrialEnded():
            return _misplaced_in_trial(state, event)
        case SessionResumed(abandoned_trials=abandoned) if set(abandoned) != set(state.running_numbers):
            return f"it abandons trials {list(abandoned)}, running are {list(state.running_numbers)}"
        case _:
            return None


def _misplaced_in_trial(state: SessionState, event: TrialStarted | Screened | TrialEnded) -> str | None:
    match event:
        case TrialStarted(number=number) if number in _begun(state):
            return f"trial {number} started before"
        case TrialStarted(number=number) if number not in state.forecasts:
            return f"trial {number} has no forecast"
        case Screened(number=number) if number not in state.running_numbers:
            return f"trial {number} is not running"
        case Screened() if state.screening_of(event.number, event.signature) is not None:
            return f"trial {event.number} was screened before"
        case TrialEnded(trial=trial) if trial.number not in state.running_numbers:
            return f"trial {trial.number} is not running"
        case TrialEnded(trial=trial) if not trial.state.is_terminal:
            return f"trial {trial.number} has ended as `{trial.state}`, which is no result"
        case _:
            return None


def _begun(state: SessionState) -> tuple[int, ...]:
    return (*state.running_numbers, *state.ended_numbers)


def _rows(state: SessionState) -> set[str]:
    """Return the signatures of every row a waterfall has measured."""
    return {row.signature for waterfall in state.waterfalls for row in waterfall.rows}


def _after(state: SessionState, event: Event) -> SessionState:
    match event:
        case SessionStarted() | SessionResumed() | SessionEnded():
            return _after_boundary(state, event)
        case Diagnosed():
            return replace(state, bottlenecks=event.bottlenecks)
        case Proposed():
            return replace(state, proposed=event)
        case Forecasted():
            return _after_forecast(state, event)
        case TrialStarted():
            return replace(state, running=(*state.running, event))
        case HalfReplayed() | Screened():
            return _after_replay(state, event)
        case Reserved():
            return replace(state, reserved=event, start_up_s=event.start_up_s)
        case Decided():
            return replace(state, decision=event.decision)
        case Profiled() | TrialEnded() | RewardTested() | Waterfall() | Confirmed() | ConfirmationFailed():
            return _after_measurement(state, event)


def _after_boundary(state: SessionState, event: SessionStarted | SessionResumed | SessionEnded) -> SessionState:
    match event:
        case SessionStarted():
            return replace(state, started=event)
        case SessionResumed():
            return replace(state, num_resumes=state.num_resumes + 1, running=(), session_ended=None)
        case SessionEnded():
            return replace(state, session_ended=event)


def _after_forecast(state: SessionState, event: Forecasted) -> SessionState:
    if event.purpose == "waterfall":
        return replace(state, waterfall_forecasts={**state.waterfall_forecasts, event.trial_number: event})
    return replace(state, forecasts={**state.forecasts, event.trial_number: event})


def _after_replay(state: SessionState, event: HalfReplayed | Screened) -> SessionState:
    if isinstance(event, HalfReplayed):
        return replace(state, halves=(*state.halves, event))
    return replace(state, screened={**state.screened, event.number: event})


def _after_measurement(
    state: SessionState, event: Profiled | TrialEnded | RewardTested | Waterfall | Confirmed | ConfirmationFailed
) -> SessionState:
    match event:
        case Profiled(label="baseline"):
            return replace(
                state,
                baseline=event.profile,
                baseline_arms=event.arms,
                start_up_s=event.start_up_s,
                evaluate_s=event.evaluate_s,
            )
        case Profiled():
            return replace(state, tuned=event.profile)
        case TrialEnded():
            running = tuple(trial for trial in state.running if trial.number != event.trial.number)
            return replace(state, running=running, ended=(*state.ended, event))
        case RewardTested():
            return replace(state, reward_tests=(*state.reward_tests, event))
        case Waterfall():
            return replace(state, waterfalls=(*state.waterfalls, event))
        case Confirmed():
            return replace(state, confirmed=event, confirmations=(*state.confirmations, event))
        case ConfirmationFailed():
            return replace(state, confirmations=(*state.confirmations, event))
