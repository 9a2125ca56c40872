import pytest
from hypothesis import given
from hypothesis import strategies as st
from store_events import PACKED, decided, forecasted, profiled, session, started, trial_ended, trial_started

from steptune.core.errors import StoreError
from steptune.core.event import Event, SessionEnded, SessionResumed
from steptune.core.trial import TrialState
from steptune.store.replay import SessionState, fold


def complaint(*events: Event) -> str:
    with pytest.raises(StoreError) as caught:
        fold(events)
    return str(caught.value)


def test_nothing_gives_the_empty_state() -> None:
    assert fold([]) == SessionState()


def test_a_whole_session_is_rebuilt() -> None:
    state = fold(session())
    assert state.started == started()
    assert state.num_resumes == 1
    assert state.baseline == state.tuned == profiled().profile
    assert state.bottlenecks == ()
    assert state.proposed is not None
    assert state.proposed.num_candidates == 3
    assert [*state.forecasts] == [1, 2]
    assert [*state.waterfall_forecasts] == [1]
    assert (state.running_numbers, state.ended_numbers) == ((), (1, 2))
    assert [event.trial.state for event in state.ended] == [TrialState.FINISHED, TrialState.STOPPED]
    assert len(state.reward_tests) == 1
    assert len(state.waterfalls) == 1
    assert state.confirmed is not None
    assert state.confirmed.signature == PACKED.signature
    assert state.decision == decided().decision
    assert state.session_ended is not None
    assert state.session_ended.why == "done"


@given(st.integers(1, len(session()) - 1))
def test_a_session_cut_anywhere_can_be_resumed_from_its_running_trials(cut: int) -> None:
    before = fold(session()[:cut])
    resumed = SessionResumed(code_hash="c0de", abandoned_trials=before.running_numbers)
    after = fold([*session()[:cut], resumed])
    assert after.running == ()
    assert after.ended == before.ended
    assert after.num_resumes == before.num_resumes + 1


def test_a_killed_trial_is_running_until_the_resume() -> None:
    state = fold(session()[:9])
    assert (state.running_numbers, state.ended_numbers) == ((2,), (1,))


def test_a_resume_reopens_an_ended_session() -> None:
    ended = SessionEnded(why="the disk is full", cost_wall_s=1.0, cost_device_s=1.0)
    state = fold([started(), ended, SessionResumed(code_hash="c", abandoned_trials=()), profiled()])
    assert state.session_ended is None
    assert state.baseline is not None


def test_a_forecast_after_its_trial_is_refused() -> None:
    message = complaint(started(), forecasted(1), trial_started(1), forecasted(1))
    assert "line 4 of the journal" in message
    assert "the forecast of trial 1 is written after the trial started" in message
    assert "trial 1 has no forecast" in complaint(started(), trial_started(1))
    at = [event.kind for event in session()].index("waterfall")
    assert "after the waterfall" in complaint(*session()[: at + 1], forecasted(2, "waterfall"))


def test_the_order_of_a_trial_is_kept() -> None:
    begun = (started(), forecasted(1), trial_started(1))
    assert "trial 1 is not running" in complaint(started(), forecasted(1), trial_ended(1))
    assert "trial 1 started before" in complaint(*begun, trial_started(1))
    assert "trial 1 started before" in complaint(*begun, trial_ended(1), trial_started(1))
    assert "no result" in complaint(*begun, trial_ended(1, TrialState.ABANDONED))


def test_a_session_starts_once_and_first_and_ends_once() -> None:
    ended = SessionEnded(why="done", cost_wall_s=1.0, cost_device_s=1.0)
    assert "line 1 of the journal" in complaint(profiled())
    assert "a session starts once" in complaint(started(), started())
    assert "the session has ended" in complaint(started(), ended, profiled())


def test_a_resume_must_name_exactly_the_running_trials() -> None:
    resumed = SessionResumed(code_hash="c", abandoned_trials=())
    message = complaint(started(), forecasted(1), trial_started(1), resumed)
    assert "it abandons trials [], running are [1]" in message
