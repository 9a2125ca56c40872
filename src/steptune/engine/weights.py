"""How new weights reach the rollout, each hand-over with a version and a hash of every tensor.

alias  the rollout holds the trainer's own tensors; only the version moves (one process, fp32)
copy   every tensor is copied in place, through shared memory when the rollout is another process
file   the state is written to a file and read back, as checkpoint-based frameworks do

Between processes nobody locks::

    writer   slot i: mark as half written -> copy -> hashes -> mark with its version;   next time the other slot
    reader   newest whole slot -> copy into memory of its own -> is the mark still the same? -> hash, compare

A slot is written again only two versions later; should a slow reader be overtaken even so, it sees the mark change
and reads the newer version. No lock, so a killed process leaves none behind.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, final

import torch
from torch import Tensor, nn

from steptune.core.errors import TrialError, explain
from steptune.engine.rollouts import Rollouts
from steptune.engine.tensor_hash import tensor_hash

HALF_WRITTEN = -1
"""Mark of a slot that must not be read."""

MAX_READS = 100
"""Reads that may be overtaken in a row. One is next to impossible: a write takes milliseconds, a step far longer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Weights:
    """Verified weights of one version, in the reader's own memory."""

    version: int
    state: Mapping[str, Tensor]
    hashes: Mapping[str, int]
    """Of every tensor of `state`, as the writer took them."""


class WeightChannel(Protocol):
    """A way for weights between processes: one writer, and readers that know nothing of each other."""

    def write(self, state: Mapping[str, Tensor], version: int) -> None:
        """Publish ``state``; versions grow."""
        ...

    def read(self) -> Weights:
        """Return the newest version, whole.

        Raises:
            TrialError: what was read is not what was published.
        """
        ...


def hand_over(method: str, model: nn.Module, engine: Rollouts, version: int, folder: Path) -> None:
    """Give ``engine`` the weights of ``model`` inside one process."""
    if method != "file":
        engine.load(model.state_dict(), version)
    else:
        channel = FileWeights(folder)
        channel.write(model.state_dict(), version)
        engine.load(channel.read().state, version)


def weight_channel(method: str, model: nn.Module, folder: Path) -> "WeightChannel":
    """Return the channel of a hand-over between processes; ``model``'s weights are version 0 in it."""
    channel = FileWeights(folder) if method == "file" else SharedWeights(model)
    channel.write(model.state_dict(), 0)
    return channel


@final
class FileWeights:
    """Weights in ``folder/weights.pt``; a reader sees the old file or the new one, never half."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "weights.pt"

    def write(self, state: Mapping[str, Tensor], version: int) -> None:
        """Write the state, its version and its hashes."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.path.with_suffix(".tmp")
        hashes = {name: tensor_hash(tensor) for name, tensor in state.items()}
        torch.save({"version": version, "hashes": hashes, "state": dict(state)}, temporary)
        os.replace(temporary, self.path)

    def read(self) -> Weights:
        """Read and verify the newest state.

        Raises:
            TrialError: a tensor is not what was published.
        """
        held = torch.load(self.path, weights_only=True)
        verify(held["state"], held["hashes"], held["version"])
        return Weights(version=held["version"], state=held["state"], hashes=held["hashes"])


@final
class SharedWeights:
    """Two slots in shared memory, each holding a whole model. Sent to each reader's process once, at its start."""

    def __init__(self, model: nn.Module) -> None:
        state = model.state_dict()
        self.names = tuple(state)
        self.slots = tuple(
            {name: torch.zeros_like(tensor, device="cpu").share_memory_() for name, tensor in state.items()}
            for _ in range(2)
        )
        self.marks = torch.full((2,), HALF_WRITTEN, dtype=torch.int64).share_memory_()
        self.hashes = torch.zeros(2, len(self.names), dtype=torch.int64).share_memory_()
        self.own: dict[str, Tensor] = {}
        """The reader's memory, written anew by every read."""

    def write(self, state: Mapping[str, Tensor], version: int) -> None:
        """Copy ``state`` into the slot that does not hold the newest version."""
        index = 1 - int(self.marks.argmax())
        self.marks[index] = HALF_WRITTEN
        for name in self.names:
            copy(state[name], self.slots[index][name])
        self.hashes[index] = torch.tensor([tensor_hash(state[name]) for name in self.names])
        self.marks[index] = version

    def read(self) -> Weights:
        """Copy and verify the newest version.

        Raises:
            TrialError: a tensor is not what was published, or every read was overtaken.
        """
        if not self.own:
            self.own = {name: torch.empty_like(tensor) for name, tensor in self.slots[0].items()}
        for _ in range(MAX_READS):
            index = int(self.marks.argmax())
            version = int(self.marks[index])
            hashes = dict(zip(self.names, self.hashes[index].tolist(), strict=True))
            for name in self.names:
                copy(self.slots[index][name], self.own[name])
            if version != HALF_WRITTEN and int(self.marks[index]) == version:
                verify(self.own, hashes, version)
                return Weights(version=version, state=self.own, hashes=hashes)
        raise TrialError(f"the weights were written {MAX_READS} times while they were being read")


def copy(source: Tensor, target: Tensor) -> None:
    """Copy one tensor. Between two of these a test lets the other side run."""
    target.copy_(source)


def verify(state: Mapping[str, Tensor], hashes: Mapping[str, int], version: int) -> None:
    """Refuse weights that are not those published.

    Raises:
        TrialError: names the first tensor that differs, and how many do.
    """
    wrong = [name for name, tensor in state.items() if tensor_hash(tensor) != hashes[name]]
    if wrong:
        raise TrialError(
            explain(
                f"the rollout's weights are not the trainer's version {version}: `{wrong[0]}` has another hash",
                got=f"{len(wrong)} of {len(state)} tensors changed on the way",
                allowed="every tensor exactly as it was published",
                hint="does another process write to this run's folder or shared memory? start the run again",
            )
        )
