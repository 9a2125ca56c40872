"""A job small enough to step through in milliseconds."""

from collections.abc import Callable
from pathlib import Path

import torch

from steptune.core.job import AlgorithmSpec, DenseModel, JobSpec, MathWorkload
from steptune.core.profile import SampledLengths
from steptune.engine.knobs import EngineKnobs
from steptune.engine.loop import Loop, LoopSpec
from steptune.engine.model import build_model
from steptune.engine.produce import TOKENIZER
from steptune.engine.supply.source import Source
from steptune.engine.supply.state import LoopState


def small_job(**algorithm: object) -> JobSpec:
    """2 layers of width 16; 4 prompts x 4 rollouts of at most 12 tokens."""
    settings = {"prompts_per_step": 4, "group_size": 4, "max_completion_len": 12, **algorithm}
    return JobSpec(
        name="small",
        model=DenseModel(num_layers=2, d_model=16, num_heads=2, num_kv_heads=1, d_ff=32),
        workload=MathWorkload(levels=(1,), num_validation=20),
        algorithm=AlgorithmSpec.model_validate(settings),
    )


def small_loop(
    job: JobSpec,
    folder: Path,
    *,
    seed: int = 1,
    forced: SampledLengths | None = None,
    capture_batches: int = 0,
    make_source: Callable[[LoopState], Source] | None = None,
    checkpoint_every: int | None = None,
    **knobs: object,
) -> Loop:
    """A loop from random weights; close it."""
    settings = {"rollout_threads": 1, "train_threads": 1, **knobs}
    model = build_model(job.model, TOKENIZER.vocab_size, seed=1)
    start = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    torch.set_num_threads(1)
    spec = LoopSpec(
        job=job,
        knobs=EngineKnobs.model_validate(settings),
        seed=seed,
        forced=forced,
        capture_batches=capture_batches,
        folder=folder,
        checkpoint_every=checkpoint_every,
    )
    return Loop(spec, model, start, make_source)
