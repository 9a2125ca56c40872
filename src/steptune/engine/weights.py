"""How new weights reach the rollout, each hand-over with a version.

alias  the rollout holds the trainer's own tensors; only the version moves (one process, fp32)
copy   every tensor is copied in place, through shared memory when the rollout is another process
file   the state is written to a file and read back, as checkpoint-based frameworks do
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import final

import torch
from torch import Tensor, nn

from steptune.engine.rollout import RolloutEngine


def hand_over(method: str, model: nn.Module, engine: RolloutEngine, version: int, folder: Path) -> None:
    """Give ``engine`` the weights of ``model`` inside one process."""
    if method != "file":
        engine.load(model.state_dict(), version)
    else:
        path = folder / "weights.pt"
        write_weights(path, model.state_dict())
        engine.load(torch.load(path, weights_only=True), version)


def write_weights(path: Path, state: Mapping[str, Tensor]) -> None:
    """Write a state dict so that a reader sees the old file or the new one, never half."""
    temporary = path.with_suffix(".tmp")
    torch.save(dict(state), temporary)
    os.replace(temporary, path)


@final
class SharedWeights:
    """One buffer in shared memory that holds a whole model's float32 weights."""

    def __init__(self, model: nn.Module) -> None:
        self.tensors = {name: tensor.detach().clone().share_memory_() for name, tensor in model.state_dict().items()}

    def write(self, state: Mapping[str, Tensor]) -> None:
        """Copy ``state`` into the buffer. The reader must not read at the same time (see `remote`)."""
        for name, tensor in state.items():
            self.tensors[name].copy_(tensor)
