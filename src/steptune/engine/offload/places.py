"""The slow side: where a layer input lies between forward and backward. In memory, in a file, or slowed down.

A place holds one tensor bit for bit, in its own number format. Places are taken and given back one by one, so two
graphs never share one, and a used place of the right size is taken before a new one is made.

The surprise: a copy is numpy's, because torch would run a large `copy_` on its thread pool and
start a second set of threads for the copier; numpy's is one thread, and lets go of the interpreter meanwhile.
"""

import os
import tempfile
import time
import weakref
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


class Place(Protocol):
    """Room for one tensor of ``num_bytes``."""

    def write(self, source: Tensor) -> None:
        """Copy ``source`` (contiguous, of this size) in."""
        ...

    def read_into(self, target: Tensor) -> None:
        """Copy what was written out to ``target`` (contiguous, of the same size and number format)."""
        ...


class SlowSide(Protocol):
    """Gives places and takes them back; called by one thread, while its places may be used by another."""

    def take(self, num_bytes: int) -> Place:
        """Return a place nobody else holds."""
        ...

    def give_back(self, place: Place) -> None:
        """Let ``place`` be taken again."""
        ...


def as_bytes(tensor: Tensor) -> NDArray[np.uint8]:
    """Return the bytes of a contiguous CPU tensor, without copying."""
    return tensor.detach().view(-1).view(torch.uint8).numpy()


def new_buffer(num_bytes: int, device: torch.device, *, is_pinned: bool = False) -> Tensor:
    """Return writable bytes: a buffer made under `inference_mode` could not be written outside of it."""
    with torch.inference_mode(mode=False), torch.no_grad():
        return torch.empty(num_bytes, dtype=torch.uint8, device=device, pin_memory=is_pinned)


@final
class Pool:
    """A slow side that makes places with ``make`` and keeps used ones by size."""

    def __init__(self, make: Callable[[int], Place]) -> None:
        self._make = make
        self._free: dict[int, list[Place]] = defaultdict(list)
        self._size_of: dict[int, int] = {}
        self.num_made = 0

    @property
    def num_taken(self) -> int:
        """Places that somebody holds."""
        return len(self._size_of)

    def take(self, num_bytes: int) -> Place:
        """Return a used place of this size, or a new one."""
        free = self._free[num_bytes]
        if free:
            place = free.pop()
        else:
            place = self._make(num_bytes)
            self.num_made += 1
        self._size_of[id(place)] = num_bytes
        return place

    def give_back(self, place: Place) -> None:
        """Keep ``place`` for the next of its size."""
        self._free[self._size_of.pop(id(place))].append(place)


@final
class MemoryPlace:
    """Ordinary host memory."""

    def __init__(self, num_bytes: int) -> None:
        self._buffer = new_buffer(num_bytes, torch.device("cpu"))

    def write(self, source: Tensor) -> None:
        """Copy in."""
        np.copyto(self._buffer.numpy(), as_bytes(source))

    def read_into(self, target: Tensor) -> None:
        """Copy out."""
        np.copyto(as_bytes(target), self._buffer.numpy())


@final
class FilePlaces:
    """Places in one file that has no name any more: it is gone when the process is, however that ends."""

    def __init__(self, folder: Path) -> None:
        """Open the file in ``folder``, which must lie on a disk to be worth anything (not in memory)."""
        self.descriptor, path = tempfile.mkstemp(dir=folder, prefix="activations-")
        os.unlink(path)
        self._end = 0
        self._finalizer = weakref.finalize(self, os.close, self.descriptor)

    def make(self, num_bytes: int) -> "FilePlace":
        """Return a new region at the end of the file."""
        place = FilePlace(self, self._end)
        self._end += num_bytes
        return place

    def close(self) -> None:
        """Let go of the file and its disk space; happens by itself when the last place is forgotten."""
        self._finalizer()


@final
class FilePlace:
    """A region of a file, read and written without mapping it: mapped pages would count as this process's memory."""

    def __init__(self, file: FilePlaces, offset: int) -> None:
        self._file, self._offset = file, offset

    def write(self, source: Tensor) -> None:
        """Copy in.

        Raises:
            OSError: the disk is full or fails.
        """
        left, offset = as_bytes(source).data, self._offset
        while left:
            done = os.pwrite(self._file.descriptor, left, offset)
            left, offset = left[done:], offset + done

    def read_into(self, target: Tensor) -> None:
        """Copy out.

        Raises:
            OSError: the file is shorter than what was written, or the disk fails.
        """
        left, offset = as_bytes(target).data, self._offset
        while left:
            done = os.preadv(self._file.descriptor, [left], offset)
            if done == 0:
                raise OSError(f"the activation file ends at byte {offset}")
            left, offset = left[done:], offset + done


@final
class Throttled:
    """A place whose copies take at least their bytes over a bandwidth: a slow link on a fast machine.

    ``clock`` and ``sleep`` are the only time it knows.
    """

    def __init__(
        self,
        place: Place,
        num_bytes: int,
        *,
        bytes_per_s: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._place, self._clock, self._sleep = place, clock, sleep
        self._copy_s = num_bytes / bytes_per_s

    def write(self, source: Tensor) -> None:
        """Copy in, not faster than the link."""
        end_s = self._clock() + self._copy_s
        self._place.write(source)
        self._sleep(max(0.0, end_s - self._clock()))

    def read_into(self, target: Tensor) -> None:
        """Copy out, not faster than the link."""
        end_s = self._clock() + self._copy_s
        self._place.read_into(target)
        self._sleep(max(0.0, end_s - self._clock()))
