"""Memory that both trainer ranks see: the weights, the second rank's gradient, and a KL term's reference weights.

One flat buffer each, so that a model of a thousand tensors takes three file descriptors and not a thousand. A buffer
holds every parameter in the model's order, each beginning at a multiple of `ALIGN_FLOATS`.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from steptune.core.errors import JobError, explain
from steptune.core.model import ModelSpec
from steptune.engine.model import Transformer

ALIGN_FLOATS = 16
"""Floats in a cache line of 64 bytes, which vector loads like to begin at."""

BYTES_FP32 = 4

SHARED_MEMORY = Path("/dev/shm")
"""Where Linux keeps it; writing beyond its end kills a process without a word, so room is asked for first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SharedMemory:
    """Sent to the second rank at its start."""

    spec: ModelSpec
    vocab_size: int
    weights: Tensor
    gradient: Tensor
    reference: Tensor | None

    def model(self) -> Transformer:
        """Return a model that *is* the first rank's: its parameters lie in the shared buffer."""
        return self._model(self.weights)

    def reference_model(self) -> Transformer | None:
        """Return the reference, read only."""
        return None if self.reference is None else self._model(self.reference).requires_grad_(False)

    def _model(self, flat: Tensor) -> Transformer:
        model = Transformer(self.spec, self.vocab_size)
        for param, place in zip(model.parameters(), views(flat, model), strict=True):
            param.data = place
        return model


def share(model: Transformer, reference: Transformer | None) -> SharedMemory:
    """Move the weights of both into shared memory, in place: whoever holds the models holds them as before.

    Raises:
        JobError: the model is not on the CPU, or there is too little shared memory.
    """
    device = model.embed.weight.device
    if device.type != "cpu":
        raise JobError(
            explain(
                "two trainer ranks share their weights through the host's memory",
                got=f"a model on {device}",
                allowed="a model on the CPU",
                hint="set `train_ranks` to 1; ranks on two GPUs are not built",
            )
        )
    _check_room(BYTES_FP32 * _num_floats(model) * (2 if reference is None else 3))
    return SharedMemory(
        spec=model.spec,
        vocab_size=model.embed.num_embeddings,
        weights=_move(model),
        gradient=torch.zeros(_num_floats(model)).share_memory_(),
        reference=None if reference is None else _move(reference),
    )


def views(flat: Tensor, model: nn.Module) -> Iterator[Tensor]:
    """Yield each parameter's place in a flat buffer, in the model's order."""
    start = 0
    for param in model.parameters():
        yield flat[start : start + param.numel()].view(param.shape)
        start += _aligned(param.numel())


def _move(model: nn.Module) -> Tensor:
    flat = torch.zeros(_num_floats(model)).share_memory_()
    for param, place in zip(model.parameters(), views(flat, model), strict=True):
        place.copy_(param.data)
        param.data = place
    return flat


def _num_floats(model: nn.Module) -> int:
    return sum(_aligned(param.numel()) for param in model.parameters())


def _aligned(numel: int) -> int:
    return -(-numel // ALIGN_FLOATS) * ALIGN_FLOATS


def _check_room(num_bytes: int) -> None:
    if not SHARED_MEMORY.is_dir():
        return
    disk = os.statvfs(SHARED_MEMORY)
    free = disk.f_bavail * disk.f_frsize
    if num_bytes > free:
        raise JobError(
            explain(
                f"two trainer ranks need {num_bytes:,} bytes of shared memory",
                got=f"{free:,} free in {SHARED_MEMORY}",
                allowed="room for the weights and one gradient",
                hint="give the container more (`--shm-size`), or set `train_ranks` to 1",
            )
        )
