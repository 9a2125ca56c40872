"""Our side of the comparison: the product's own loop, step by step."""

import time
from pathlib import Path
from typing import Any

import torch
from same_work import SEED

from steptune.core.job import JobSpec
from steptune.core.profile import SampledLengths
from steptune.engine.knobs import EngineKnobs
from steptune.engine.loop import Loop, LoopSpec
from steptune.engine.model import build_model
from steptune.engine.produce import TOKENIZER


def run(spec: JobSpec, settings: dict[str, Any], forced: SampledLengths, folder: Path, turns: Any) -> None:
    """Run steps while the parent allows them. Wall seconds of the whole step, hand-over and reward included."""
    knobs = EngineKnobs.model_validate(settings)
    torch.set_num_threads(knobs.train_threads)
    model = build_model(spec.model, TOKENIZER.vocab_size, seed=0)
    start = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    loop = Loop(
        LoopSpec(job=spec, knobs=knobs, seed=SEED, forced=forced, capture_batches=0, folder=folder), model, start
    )
    try:
        while turns.wait(loop.settle):
            start_s = time.perf_counter()
            loop.step()
            turns.took.append(time.perf_counter() - start_s)
    finally:
        loop.close()
