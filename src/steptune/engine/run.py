"""One run of the engine as `serve` drives it: the loop plus the held-out evaluation."""

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, final

import torch

from steptune.core.errors import ModelError
from steptune.core.profile import SampledLengths
from steptune.core.trial import EvalResult, Observation
from steptune.engine.evaluate import evaluate
from steptune.engine.loop import Loop, LoopSpec
from steptune.engine.new_model import new_model

if TYPE_CHECKING:
    from steptune.engine.serve import RunFile


@final
class Run:
    """Loads the SFT start, or the last checkpoint, and steps from it."""

    def __init__(self, run: "RunFile", folder: Path) -> None:
        self.job = run.job
        spec = LoopSpec(
            job=run.job,
            knobs=run.knobs,
            seed=run.seed,
            forced=run.forced_lengths,
            capture_batches=run.capture_batches,
            folder=folder,
            checkpoint_every=run.checkpoint_every,
        )
        start = torch.load(run.start_path, weights_only=True)
        self.loop = Loop(spec, new_model(run.job), start)
        self.problems: tuple[str, ...] = ()
        """What was wrong with checkpoints newer than the one the run goes on from."""
        if run.resume:
            with ExitStack() as undo:
                undo.callback(self.loop.close)
                self.problems = self.loop.resume()
                undo.pop_all()

    def step(self) -> Observation:
        """Run one step."""
        return self.loop.step()

    def rehearse(self, seconds: float) -> None:
        """Repeat the coming step for at least ``seconds``, without learning from it."""
        self.loop.rehearse(seconds)

    def settle(self) -> None:
        """Wait for work in flight."""
        self.loop.settle()

    def evaluate(self) -> EvalResult:
        """Accuracy on the held-out problems at the trainer's weights."""
        self.loop.settle()
        return evaluate(self.loop.model, self.job, step=self.loop.step_index)

    def lengths(self) -> SampledLengths:
        """Lengths of every rollout so far."""
        return self.loop.lengths()

    def save_model(self, folder: Path) -> str | None:
        """Write the trainer's weights as a folder that transformers loads; return why there is none, or None."""
        self.loop.settle()
        try:
            from steptune.engine.hf.checkpoint import write_checkpoint  # needs `safetensors`, which training does not

            write_checkpoint(folder, self.job.model, self.loop.model.state_dict())
        except (ModelError, ImportError, OSError) as error:
            return f"{type(error).__name__}: {error}"  # the run goes on without it
        return None

    def close(self) -> None:
        """Stop the worker."""
        self.loop.close()
