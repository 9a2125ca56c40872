"""The report of a training run: the curve, in words and drawn; what is missing is said."""

import math

from steptune.core.training import SavedModel, TrainedStep, Training
from steptune.core.trial import EvalResult
from steptune.report.training_html import training_html
from steptune.report.training_text import training_text


def evaluated(step: int, accuracy: float) -> EvalResult:
    return EvalResult(step=step, accuracy=accuracy, num_problems=2000, truncated_frac=0.1, completion_len_mean=9.5)


RUN = Training(
    job_name="math <dense>",
    evaluations=(evaluated(0, 0.5), evaluated(25, 0.6), evaluated(40, 0.75)),
    steps=tuple(TrainedStep(step=i, step_time_s=0.5, reward_mean=0.1 * i, entropy=None) for i in range(4)),
    models=(
        SavedModel(step=25, path="checkpoints/step-000025"),
        SavedModel(step=40, path="checkpoints/step-000040", refused="no architecture of this shape"),
    ),
)


def test_text_and_page_have_the_curve_and_the_checkpoints() -> None:
    for said in (training_text(RUN), training_html(RUN)):
        assert "held-out accuracy 0.500 to 0.750 on 2000 held-out problems" in said
        assert "60.0 %" in said
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
