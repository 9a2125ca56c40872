"""What must hold of every answer about a log: units, one device, one sequence, rollouts of no tokens."""

import pytest
from ask_cases import log

from steptune.core.paste import Paste
from steptune.core.profile import SummaryLengths, WorkSignature
from steptune.forecast.ask.ask import ask
from steptune.forecast.ask.question import Question
from steptune.forecast.curve import ForecastError


def with_profile(paste: Paste, **changes: object) -> Paste:
    assert paste.profile is not None
    return paste.model_copy(update={"profile": paste.profile.model_copy(update=changes)})


@pytest.mark.parametrize("question", [Question(devices=4), Question(split=(3, 5), max_lag=1)])
def test_a_log_in_milliseconds_has_the_same_ratio(question: Question) -> None:
    one, two = (ask(log(step_s=100 * unit, rollout_s=60 * unit, train_s=30 * unit), question) for unit in (1.0, 1000.0))
    assert two.ratio.value == pytest.approx(one.ratio.value, rel=1e-9)
    assert two.step_time.value == pytest.approx(1000 * one.step_time.value, rel=1e-9)
    assert [row.share.value for row in two.lag] == pytest.approx([row.share.value for row in one.lag])


def test_a_log_of_one_device_and_one_rollout_is_answered() -> None:
    alone = with_profile(log(devices=1), work=WorkSignature(prompts_per_step=1, group_size=1))
    answer = ask(alone, Question(devices=2))
    # one rollout cannot be divided; the exponent of devices, a prior of large batches, then costs up to a quarter
    # of the training, 30 of 100 s
    assert 0.9 < answer.ratio.value < 1.08
    assert answer.configuration.num_devices == 2


def test_rollouts_of_no_tokens_are_refused_with_what_to_log() -> None:
    empty = with_profile(log(), lengths=SummaryLengths(prompt_mean=100, completion_mean=0, completion_max=4096))
    with pytest.raises(ForecastError, match="log completion lengths per sample"):
        ask(empty, Question(devices=4))
