"""What a plain training run is to do and did: its curve on the held-out problems, its steps and its checkpoints."""

from typing import Annotated

from pydantic import Field

from steptune.core.records import Record
from steptune.core.trial import EvalResult

PositiveInt = Annotated[int, Field(gt=0)]


class TrainingPlan(Record):
    """How long, and what in between: ``TrainingPlan(num_steps=50, validate_every=25)``."""

    num_steps: PositiveInt = 50
    validate_every: PositiveInt = 25
    """Steps between two validations; there is one before the first step and one after the last, too."""
    save_every: PositiveInt | None = None
    """Steps between two checkpoints; None keeps the last only."""
    state_every: PositiveInt | None = 10
    """Steps between two states to go on from; None where the session saves none."""


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
    loss: float | None = None
    grad_norm: float | None = None
    """Before clipping, mean of the step's updates."""
    mixed_groups_frac: float | None = None
    """Groups whose rewards differ, 0..1; the others teach nothing."""
    zero_advantage_frac: float | None = None
    """Rows that add nothing to the policy's gradient, 0..1."""


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
    plan: TrainingPlan | None = None
    """What it goes on with when it is resumed; None in a record that was written before there was one."""
    evaluations: tuple[EvalResult, ...] = ()
    """On the same held-out problems with the same dice, in order; the first is of the start."""
    steps: tuple[TrainedStep, ...] = ()
    models: tuple[SavedModel, ...] = ()
