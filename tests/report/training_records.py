"""A training run with everything in it that a report can show."""

from steptune.core.training import SavedModel, TrainedStep, Training
from steptune.core.trial import EvalResult


def evaluated(step: int, accuracy: float) -> EvalResult:
    return EvalResult(step=step, accuracy=accuracy, num_problems=2000, truncated_frac=0.1, completion_len_mean=9.5)


RUN = Training(
    job_name="math <dense>",
    evaluations=(evaluated(0, 0.5), evaluated(25, 0.6), evaluated(40, 0.75)),
    steps=tuple(
        TrainedStep(step=i, step_time_s=0.5, reward_mean=0.1 * i, entropy=None, loss=0.5 - 0.1 * i) for i in range(4)
    ),
    models=(
        SavedModel(step=25, path="checkpoints/step-000025"),
        SavedModel(step=40, path="checkpoints/step-000040", refused="no architecture of this shape"),
    ),
)
