"""Pooled scores of our own forecasts: late ones, unfinished trials, arms. Here, beside the sessions it is made of."""

import math

import pytest
from report_records import COMPACT, PACKED, ended, forecasted
from report_sessions import full_session

from steptune.core.decision import Outcome
from steptune.core.event import Event, TrialStarted
from steptune.core.trial import TrialState
from steptune.score.prospective import judge_session, prospective_lines
from steptune.score.text import prospective_text

STARTED = TrialStarted(number=1, change=PACKED, incumbent_signature="0")
FIRST = forecasted(1, PACKED, 0.7)
GOOD = ended(1, PACKED, TrialState.FINISHED, Outcome.ADOPT, 0.77)


def test_a_forecast_that_comes_after_its_trial_began_does_not_count() -> None:
    assert len(judge_session([FIRST, STARTED, GOOD])) == 1
    assert judge_session([STARTED, FIRST, GOOD]) == ()


def test_the_error_is_the_ratio_of_forecast_and_measured() -> None:
    (forecast, no_change, best) = prospective_lines({"a": [FIRST, STARTED, GOOD]})[:3]
    assert forecast.median_frac == pytest.approx(0.77 / 0.7 - 1)
    assert no_change.median_frac == best.median_frac == pytest.approx(1 / 0.77 - 1)


def test_the_best_past_trial_is_what_was_known_when_the_forecast_was_written() -> None:
    later = forecasted(2, COMPACT, 0.5, first=False)
    end = ended(2, COMPACT, TrialState.FINISHED, Outcome.ADOPT, 0.5)
    judged = judge_session([FIRST, STARTED, GOOD, later, end])
    assert [one.best_past_ratio for one in judged] == [1.0, 0.77]


@pytest.mark.parametrize("state", [TrialState.OUT_OF_MEMORY, TrialState.FAILED, TrialState.STOPPED])
def test_a_trial_that_did_not_finish_is_an_infinite_error_for_every_arm(state: TrialState) -> None:
    end = ended(1, PACKED, state, Outcome.REJECT, None)
    lines = prospective_lines({"a": [FIRST, STARTED, end]})
    assert {line.median_frac for line in lines} == {math.inf}
    assert lines[0].num_unfinished == 1


def test_first_and_later_forecasts_are_never_pooled() -> None:
    lines = prospective_lines({"a": full_session()})
    scored = {line.what: line.num_scored for line in lines if line.arm == "forecast"}
    assert scored["first forecasts"] > 0
    assert scored["later forecasts"] > 0
    assert "first forecasts, moves over 10 %" in scored


def test_sessions_weigh_the_same() -> None:
    events: list[Event] = [FIRST, STARTED, GOOD]
    exact: list[Event] = [FIRST, STARTED, ended(1, PACKED, TrialState.FINISHED, Outcome.ADOPT, 0.7)]
    lines = prospective_lines({"a": events, "b": exact, "c": exact})
    assert lines[0].median_frac == pytest.approx(0)
    assert lines[0].num_scored == 3


def test_nothing_to_score_is_said() -> None:
    assert "no forecast has a result" in prospective_text(prospective_lines({"a": []}), None, 1)
