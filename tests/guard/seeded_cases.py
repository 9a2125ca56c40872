"""Runs of the embedded engine small enough to break on purpose: two layers, and a reward that a step can move."""

import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from steptune.core.job import JobSpec
from steptune.core.profile import SampledLengths
from steptune.core.trial import Observation
from steptune.engine.knobs import EngineKnobs
from steptune.engine.loop import Loop, LoopSpec
from steptune.engine.new_model import new_model
from steptune.engine.types import RolloutBatch

sys.path.insert(0, str(Path(__file__).parents[1] / "engine"))
sys.path.insert(0, str(Path(__file__).parents[1] / "engine" / "ranks"))
sys.path.insert(0, str(Path(__file__).parents[1] / "engine" / "ahead"))
from inline_wire import inline_source
from inline_worker import inline_one_step_off
from loop_cases import small_job

__all__ = ["lively_start", "reward_of_low_tokens", "run_steps", "seeded_loop", "small_job", "stale_job"]

LIVELY = 6.0
"""Fresh weights times this: the fresh ones give every token the same probability, and every fault would hide."""

LOW_TOKENS = 20
"""Tokens below this id are rewarded: nearly half of the vocabulary, so that every group is mixed from the start."""


def stale_job() -> JobSpec:
    """Return a job whose owner allows tokens two updates old."""
    job = small_job(lr=1e-2)
    return job.model_copy(update={"limits": job.limits.model_copy(update={"max_staleness": 2})})


def reward_of_low_tokens(_producer: object, batch: RolloutBatch, _problems: Sequence[object]) -> Tensor:
    """Stand in for `Producer.verify`: the share of low tokens of every row, which a few updates raise."""
    return ((batch.completion_BT < LOW_TOKENS) & batch.mask_BT).sum(1) / batch.lengths_B


def lively_start(job: JobSpec) -> dict[str, Tensor]:
    """Return weights under which tokens differ."""
    state = new_model(job).state_dict()
    return {name: LIVELY * tensor if tensor.ndim > 1 else tensor.clone() for name, tensor in state.items()}


def seeded_loop(
    folder: Path,
    job: JobSpec,
    *,
    seed: int = 1,
    forced: SampledLengths | None = None,
    capture_batches: int = 0,
    **knobs: object,
) -> Loop:
    """Return a loop on one thread; close it. A worker runs in the test's own process."""
    settings = EngineKnobs.model_validate({"rollout_threads": 1, "train_threads": 1, **knobs})
    torch.set_num_threads(1)
    spec = LoopSpec(job=job, knobs=settings, seed=seed, forced=forced, capture_batches=capture_batches, folder=folder)
    source = {"one_step_off": inline_one_step_off, "async": inline_source}.get(settings.schedule)
    return Loop(spec, new_model(job), lively_start(job), source)


def run_steps(
    folder: Path, num_steps: int = 5, *, job: JobSpec | None = None, seed: int = 1, **knobs: object
) -> list[Observation]:
    """Return the steps of a run of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    loop = seeded_loop(folder, job or small_job(lr=1e-2), seed=seed, **knobs)
    try:
        return [loop.step() for _ in range(num_steps)]
    finally:
        loop.close()
