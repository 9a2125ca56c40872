"""The report of a training run: the curve, in words and drawn; what is missing is said."""

import math

from training_records import RUN, evaluated

from steptune.core.training import TrainedStep, Training
from steptune.report.training_html import training_html
from steptune.report.training_text import training_text


def test_text_and_page_have_the_curve_and_the_checkpoints() -> None:
    for said in (training_text(RUN), training_html(RUN)):
        assert "held-out accuracy 0.500 to 0.750 on 2000 held-out problems" in said
        assert "60.0 %" in said
        assert "loss" in said
        assert "0.500 to 0.200" in said
        assert "entropy" not in said, "no step tells it"
        assert "checkpoints/step-000025" in said
        assert "no architecture of this shape" in said
        assert "checkpoints/step-000040" not in said
    assert "math &lt;dense&gt;" in training_html(RUN)
    assert 'class="plot trend"' in training_html(RUN)


def test_a_run_without_anything_yet_is_a_report_too() -> None:
    empty = Training(job_name="j")
    assert "no validation yet" in training_text(empty)
    assert "no validation yet" in training_html(empty)
    assert "of the start 0.500" in training_text(Training(job_name="j", evaluations=(evaluated(0, 0.5),)))


def test_a_reward_that_is_no_number_is_told_and_not_bridged() -> None:
    steps = (TrainedStep(step=0, step_time_s=1.0, reward_mean=math.nan, entropy=None),)
    assert "none of 1 value is a finite number" in training_text(RUN.model_copy(update={"steps": steps}))
