"""Logs that no forecast can be made from, each with the sentence that says what is missing."""

import pytest
from ask_cases import log, post

from steptune.forecast.ask.ask import ask
from steptune.forecast.ask.question import Question
from steptune.forecast.curve import ForecastError


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("A01", "no step time"),
        ("N01", "cannot be told apart"),
        ("P01", "no phase times of generation and training"),
        ("S02", "no phase times of training"),
        ("T05", "no phase times of generation"),
        ("K07", "on how many devices"),
        ("X19", "--given train_devices=N"),
    ],
)
def test_a_post_without_what_the_answer_rests_on_is_refused(name: str, said: str) -> None:
    with pytest.raises(ForecastError, match=said):
        ask(post(name), Question(devices=16))


def test_a_refusal_names_the_switch_that_prints_what_is_missing() -> None:
    with pytest.raises(ForecastError, match="--use-tensorboard"):
        ask(post("S02"), Question(devices=16))


def test_an_asynchronous_log_without_its_staleness_is_refused() -> None:
    with pytest.raises(ForecastError, match="--given max_lag=N"):
        ask(log(schedule="async", held=(4, 4)), Question(split=(4, 8)))


def test_phases_that_overlap_in_a_synchronous_step_are_refused() -> None:
    with pytest.raises(ForecastError, match="overlap"):
        ask(log(step_s=70), Question(devices=4))


def test_phases_a_rounding_above_their_step_are_not() -> None:
    assert ask(log(step_s=89), Question()).step_time.value == 89


def test_a_number_of_devices_that_makes_no_whole_replicas_is_refused() -> None:
    with pytest.raises(ForecastError, match="whole"):
        ask(log(), Question(devices=9, given={"replicas": 2}))


def test_a_step_that_no_count_keeps_is_refused() -> None:
    with pytest.raises(ForecastError, match="no number of devices"):
        ask(log(), Question(wants_fewest=True, devices=2, max_lag=1))
