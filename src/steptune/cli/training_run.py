"""One plain training run: its steps cut where it validates, saves or says something; its report kept up to date.

::

    validate -> steps -> say -> steps -> validate, save -> ... -> validate, save

The files in the run's folder are replaced at every such point, so a run that dies leaves the curve up to there.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import final

from steptune.core.framework import SavesModels, Session
from steptune.core.training import SavedModel, TrainedStep, Training, TrainingPlan
from steptune.core.trial import EvalResult, Observation
from steptune.report.training_html import training_html
from steptune.report.training_text import training_text
from steptune.store.files import replace

TRAINING = "training.json"
"""The record that report and curve are made of."""

REPORT_EVERY = 5
"""Steps between two lines of output."""

NO_MODELS = "this framework saves no models"

NOTHING_LEARNT = (
    "train: the rewards of every group were equal in all these steps, so no reward moved a weight; hint: unless all "
    "answers are right, a longer `sft.num_steps`, easier `workload.levels` or a larger `algorithm.group_size`"
)
"""Said at every stop that it is true of."""


def stops(plan: TrainingPlan, start: int) -> list[int]:
    """Return every number of steps after ``start`` at which something is due, the last step included.

    The record is written at each, so that it agrees with the states that the session itself saves.
    """
    every = [REPORT_EVERY, plan.validate_every, *(n for n in (plan.save_every, plan.state_every) if n)]
    ends = {at for n in every for at in range(n, plan.num_steps, n)} | {plan.num_steps}
    return sorted(at for at in ends if at > start)


def is_validated(plan: TrainingPlan, at: int) -> bool:
    """Return whether accuracy is measured after ``at`` steps."""
    return at == plan.num_steps or at % plan.validate_every == 0


def is_saved(plan: TrainingPlan, at: int) -> bool:
    """Return whether a checkpoint is written after ``at`` steps."""
    return at == plan.num_steps or (plan.save_every is not None and at % plan.save_every == 0)


@final
class TrainingRun:
    """Drives a session and keeps the record."""

    def __init__(self, session: Session, training: Training, folder: Path, say: Callable[[str], None]) -> None:
        """``training`` is what is known already: nothing but the name, or what a killed run left."""
        self.session, self.training, self.folder, self.say = session, training, folder, say
        self.kind_of_start = "start" if training.steps else "SFT start"

    def run(self, plan: TrainingPlan, done: int | None = None) -> Training:
        """Train from step ``done`` (None: those of the record) to the end of ``plan`` and return the record."""
        done = len(self.training.steps) if done is None else done
        self.training = self.training.model_copy(update={"plan": plan})
        if not self.training.evaluations:
            start = self._validate()
            self.say(
                f"train: held-out accuracy of the {self.kind_of_start} {start.accuracy:.3f} "
                f"({start.num_problems} problems)"
            )
        for at in stops(plan, done):
            steps = self.session.run_steps(at - done)
            self._keep(steps=(*self.training.steps, *map(_kept, steps)))
            self.say(_line(steps))
            if all(step.zero_advantage_frac == 1 for step in steps):
                self.say(NOTHING_LEARNT)
            done = at
            if is_validated(plan, at):
                self.say(f"train: held-out accuracy after {at} steps {self._validate().accuracy:.3f}")
            if is_saved(plan, at):
                self._save(at)
        return self.training

    def _validate(self) -> EvalResult:
        found = self.session.evaluate()
        self._keep(evaluations=(*self.training.evaluations, found))
        return found

    def _save(self, at: int) -> None:
        path, refused = f"checkpoints/step-{at:06d}", NO_MODELS
        if isinstance(self.session, SavesModels):
            refused = self.session.save_model(self.folder / path)
        self._keep(models=(*self.training.models, SavedModel(step=at, path=path, refused=refused)))
        self.say(f"train: checkpoint {path}" if refused is None else f"train: no checkpoint: {refused}")

    def _keep(self, **more: object) -> None:
        self.training = self.training.model_copy(update=more)
        replace(self.folder / TRAINING, self.training.model_dump_json() + "\n")
        replace(self.folder / "report.html", training_html(self.training))
        replace(self.folder / "report.txt", training_text(self.training))


def _kept(step: Observation) -> TrainedStep:
    return TrainedStep(
        step=step.step,
        step_time_s=step.step_time_s,
        reward_mean=step.reward_mean,
        entropy=step.entropy,
        mismatch_k3=step.mismatch.k3 if step.mismatch else None,
        ess_frac=step.mismatch.ess_frac if step.mismatch else None,
        lag_max=step.lag_max,
        truncated_frac=step.truncated_frac,
        memory_peak_bytes=step.memory_peak_bytes,
        completion_len_max=step.completion_len_max,
        completion_len_mean=step.completion_tokens / step.num_rollouts if step.num_rollouts else None,
        loss=step.loss,
        grad_norm=step.grad_norm,
        mixed_groups_frac=step.mixed_groups_frac,
        zero_advantage_frac=step.zero_advantage_frac,
    )


def _line(steps: list[Observation]) -> str:
    seconds = sum(step.step_time_s for step in steps) / len(steps)
    reward, loss = _mean([step.reward_mean for step in steps]), _mean([step.loss for step in steps])
    entropy = _mean([step.entropy for step in steps])
    return (
        f"train: step {steps[-1].step + 1}: {seconds:.3f} s per step, reward {reward}, loss {loss}, entropy {entropy}"
    )


def _mean(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{sum(known) / len(known):.3g}" if known else "unknown"
