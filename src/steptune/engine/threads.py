"""Runs a block of code on a given number of torch threads."""

from collections.abc import Generator
from contextlib import contextmanager

import torch


@contextmanager
def torch_threads(num_threads: int) -> Generator[None]:
    """Use ``num_threads`` inside the block and the former number after it."""
    former = torch.get_num_threads()
    torch.set_num_threads(num_threads)
    try:
        yield
    finally:
        torch.set_num_threads(former)
