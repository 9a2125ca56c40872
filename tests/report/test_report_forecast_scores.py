"""Scoring: nothing that went wrong may leave the count."""

import math

import pytest
from report_records import COMPACT, PACKED, ended, forecasted
from report_sessions import full_session, nan_session

from steptune.core.decision import Outcome
from steptune.core.event import Event
from steptune.core.trial import TrialState
from steptune.report.session_view import view_session
from steptune.score.forecasts import Fate, ForecastScore, forecast_scores, median_error_frac


def scores_of(events: list[Event]) -> dict[tuple[str, bool], ForecastScore]:
    view = view_session(events)
    scores = forecast_scores(view.forecasts, view.trial_ends, view.waterfalls)
    return {(score.target, score.is_first): score for score in scores}


def test_fates_follow_what_was_measured() -> None:
    fates = {key: score.fate for key, score in scores_of(full_session()).items()}
    assert fates[("trial 1", True)] is Fate.INSIDE
    assert fates[("trial 3", True)] is Fate.OUTSIDE
    assert fates[("trial 4", True)] is Fate.NOT_FINISHED
    assert fates[("trial 6", False)] is Fate.NOT_FINISHED
    assert fates[("trial 8", True)] is Fate.REFUSED
    assert fates[("waterfall row 2", True)] is Fate.INSIDE


def test_error_is_forecast_over_measured_less_one() -> None:
    # 0.60 / 0.75 - 1 = -20 %
    assert scores_of(full_session())[("trial 3", True)].error_frac == pytest.approx(-0.2)


def test_an_unfinished_trial_counts_as_infinite_error() -> None:
    events: list[Event] = [
        forecasted(1, PACKED, 0.7),
        ended(1, PACKED, TrialState.FINISHED, Outcome.ADOPT, 0.7),
        forecasted(2, COMPACT, 0.5),
        ended(2, COMPACT, TrialState.OUT_OF_MEMORY, Outcome.REJECT, None),
    ]
    assert median_error_frac(list(scores_of(events).values())) == math.inf


def test_a_nan_measurement_is_a_miss_with_infinite_error() -> None:
    scores = [score for score in scores_of(nan_session()).values() if score.target.startswith("trial 1")]
    assert [score.fate for score in scores] == [Fate.OUTSIDE]
    assert median_error_frac(scores) == math.inf


def test_a_refused_forecast_has_no_number_and_no_score() -> None:
    refused = scores_of(full_session())[("trial 8", True)]
    assert refused.forecast is None
    assert not refused.is_scored
    assert median_error_frac([refused]) is None


def test_a_forecast_is_held_against_its_own_change_only() -> None:
    events: list[Event] = [forecasted(1, PACKED, 0.7), ended(1, COMPACT, TrialState.FINISHED, Outcome.ADOPT, 0.7)]
    assert scores_of(events)[("trial 1", True)].fate is Fate.NOT_TRIED


def test_a_forecast_written_again_counts_as_first_written() -> None:
    events: list[Event] = [
        forecasted(1, PACKED, 0.9),
        forecasted(1, PACKED, 0.7),
        ended(1, PACKED, TrialState.FINISHED, Outcome.ADOPT, 0.7),
    ]
    (score,) = scores_of(events).values()
    assert score.fate is Fate.OUTSIDE


def test_an_interval_that_is_not_stated_holds_nothing() -> None:
    event = forecasted(1, PACKED, 0.7)
    bare = event.forecast.ratio.model_copy(update={"low": None})
    event = event.model_copy(update={"forecast": event.forecast.model_copy(update={"ratio": bare})})
    events: list[Event] = [event, ended(1, PACKED, TrialState.FINISHED, Outcome.ADOPT, 0.7)]
    assert scores_of(events)[("trial 1", True)].is_miss
