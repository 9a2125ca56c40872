"""What a plain training run did: its curve on the held-out problems, its steps and its checkpoints."""

from steptune.core.records import Record
from steptune.core.trial import EvalResult


class TrainedStep(Record):
    """One step: ``TrainedStep(step=3, step_time_s=0.41, reward_mean=0.52, entropy=0.31)``."""

    step: int
    step_time_s: float
    reward_mean: float | None
    entropy: float | None
    mismatch_k3: float | None = None
    """Rollout against trainer at the same weights, nat; this and what follows is for `steptune watch`."""
    ess_frac: float | None = None
    lag_max: float | None = None
    truncated_frac: float | None = None
    memory_peak_bytes: float | None = None
    completion_len_max: float | None = None
    completion_len_mean: float | None = None


class SavedModel(Record):
    """A checkpoint: ``SavedModel(step=50, path="checkpoints/step-000050")``."""

    step: int
    """RL steps before it."""
    path: str
    """Inside the run's folder."""
    refused: str | None = None
    """Why there is none."""


class Training(Record):
    """A run of `steptune train`, from its SFT start on.

    Example: ``Training(job_name="math-dense", evaluations=(EvalResult(step=0, accuracy=0.51, ...),), steps=(...))``.
    """

    job_name: str
    evaluations: tuple[EvalResult, ...] = ()
    """On the same held-out problems with the same dice, in order; the first is of the start."""
    steps: tuple[TrainedStep, ...] = ()
    models: tuple[SavedModel, ...] = ()
