"""Small pieces of an arm's own work, timed between two of its steps: what a profile knows beside the steps themselves.

Three widths of decoding and five of training, as kernels change between them, under each number format and number of
threads, and one micro-batch with checkpointing the other way round. Surprise: nothing here cuts a generation call or
runs a step under another configuration; what those do is left to the model. Formats are turned around the model's
forward, as `accelerate` does it: weights are cast at every call.
"""

import contextlib
from collections.abc import Iterator
from itertools import product
from types import MethodType
from typing import Any

import torch

from prospective.job import Job
from prospective.step_lengths import num_rows
from prospective.trl_messages import GenerateCall, MicroPass, Probe
from prospective.trl_space import KNOBS

PROBE_TOKENS = 10
"""Completion tokens of a decoding probe."""

DECODING_REPEATS, TRAINING_REPEATS = 3, 5
"""The first one of a size pays for buffers; all are told. A call is ten iterations already, a micro-batch is not."""

MICRO_ROWS = (1, 2, 4, 8, 16)
"""All that a candidate can have: between 1 and 4 rows seconds are no line (23 and 59 ms, where 2 rows took 35)."""

TURNED_ROWS = 4
"""Rows of the micro-batch with checkpointing the other way round."""


def probe(trainer: Any, clocks: Any, job: Job, most_rows: int) -> list[Probe]:
    """Return the probes under every number format and number of threads; ``most_rows`` is the widest micro-batch."""
    own_threads = torch.get_num_threads()
    try:
        return [
            _probe(trainer, clocks, job, bool(b), int(t), most_rows)
            for b, t in product(KNOBS["bf16"], KNOBS["num_threads"])
        ]
    finally:
        torch.set_num_threads(own_threads)


def _probe(trainer: Any, clocks: Any, job: Job, bf16: bool, num_threads: int, most_rows: int) -> Probe:
    torch.set_num_threads(num_threads)
    rows = num_rows(job)
    with _number_format(trainer, bf16=bf16):
        calls = [c for width in (rows // 4, rows // 2, rows) for c in _decoding(trainer, job, width)]
        micro = [m for width in MICRO_ROWS if width <= most_rows for m in _training(trainer, clocks, width)]
        with _checkpointing(trainer, on=not trainer.model.is_gradient_checkpointing):
            turned = _training(trainer, clocks, TURNED_ROWS)
    return Probe(bf16=bf16, num_threads=num_threads, calls=tuple(calls), micro=tuple(micro), turned=tuple(turned))


@contextlib.contextmanager
def _number_format(trainer: Any, *, bf16: bool) -> Iterator[None]:
    model, accelerator = trainer.model, trainer.accelerator
    kept_forward, kept_autocast = model.forward, accelerator.autocast
    inner = getattr(model, "_original_forward", model.forward).__func__

    def context() -> Any:
        return torch.autocast("cpu", torch.bfloat16) if bf16 else contextlib.nullcontext()

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        with context():
            return inner(self, *args, **kwargs)

    model.forward, accelerator.autocast = MethodType(forward, model), lambda *_, **__: context()
    try:
        yield
    finally:
        model.forward, accelerator.autocast = kept_forward, kept_autocast


def _decoding(trainer: Any, job: Job, rows: int) -> list[GenerateCall]:
    """Generate a few tokens for the first rows of the step's prompts."""
    from prospective.trl_arm import timed_generate

    prompts_BP, mask_BP = _first_rows(trainer, rows, "prompt_ids", "prompt_mask")
    made: list[GenerateCall] = []
    model = trainer.model
    model.eval()
    with torch.no_grad(), _checkpointing(trainer, on=False):
        for _ in range(DECODING_REPEATS):
            timed_generate(
                model.plain_generate,
                {"input_ids": prompts_BP, "attention_mask": mask_BP, "generation_config": trainer.generation_config},
                torch.full((rows,), PROBE_TOKENS),
                made,
                prompts_BP.shape[1],
            )
    model.train()
    return made


@contextlib.contextmanager
def _checkpointing(trainer: Any, *, on: bool) -> Iterator[None]:
    """Checkpoint, or not: TRL generates without, as a checkpointed forward keeps no cache."""
    was_on = trainer.model.is_gradient_checkpointing
    _turn(trainer, on=on)
    try:
        yield
    finally:
        _turn(trainer, on=was_on)


def _turn(trainer: Any, *, on: bool) -> None:
    model = trainer.model
    if on and not model.is_gradient_checkpointing:
        model.gradient_checkpointing_enable(trainer.args.gradient_checkpointing_kwargs or None)
    if not on and model.is_gradient_checkpointing:
        model.gradient_checkpointing_disable()


def _training(trainer: Any, clocks: Any, rows: int) -> list[MicroPass]:
    """Run forward and backward of one micro-batch as the trainer does, and forget the gradients."""
    names = ("prompt_ids", "prompt_mask", "completion_ids", "completion_mask", "advantages")
    inputs = dict(zip(names, _first_rows(trainer, rows, *names), strict=True))
    inputs["num_items_in_batch"] = inputs["completion_mask"].sum()
    kept = clocks.micro
    clocks.micro = []
    for _ in range(TRAINING_REPEATS):
        trainer.accelerator.backward(trainer.compute_loss(trainer.model_wrapped, dict(inputs)))
    trainer.model.zero_grad(set_to_none=True)  # only now: all but the first micro-batch of a step add to gradients
    made, clocks.micro = clocks.micro, kept
    return made


def _first_rows(trainer: Any, rows: int, *names: str) -> list[torch.Tensor]:
    """Return the step's last generation batch, repeated until there are so many rows."""
    found: list[torch.Tensor] = []
    for name in names:
        whole = torch.cat([micro[name] for micro in trainer._buffered_inputs])
        found.append(whole.repeat(-(-rows // len(whole)), *[1] * (whole.dim() - 1))[:rows])
    return found
