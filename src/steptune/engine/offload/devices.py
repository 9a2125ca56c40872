"""Which link a device has, and whether its slow side is another memory at all."""

from pathlib import Path

import torch

from steptune.engine.offload.cuda_link import CudaLink
from steptune.engine.offload.decide import MIN_BYTES
from steptune.engine.offload.host_link import HostLink
from steptune.engine.offload.places import FilePlaces, MemoryPlace, Place, Pool
from steptune.engine.offload.step import Offload


def offload_to_host(device: torch.device, *, depth: int = 1, min_bytes: int = MIN_BYTES) -> Offload:
    """Return offloading from ``device`` to the host's memory.

    On a CPU, and on a GPU that shares the host's memory, the two are one: it then says so once and recomputes
    (unsloth-zoo#928: copies within one memory took 2.15 times as long and freed nothing). Not run on CUDA.
    """
    if device.type == "cpu":
        pool = Pool(_memory_place)
        return Offload(lambda: HostLink(pool), is_unified=True, depth=depth, min_bytes=min_bytes)
    link = CudaLink(device)
    is_unified = bool(torch.cuda.get_device_properties(device).is_integrated)
    return Offload(lambda: link, is_unified=is_unified, depth=depth, min_bytes=min_bytes)


def offload_to_file(folder: Path, *, depth: int = 1, min_bytes: int = MIN_BYTES) -> Offload:
    """Return offloading from a CPU to a nameless file in ``folder``: frees memory there, as fast as the disk is."""
    pool = Pool(FilePlaces(folder).make)
    return Offload(lambda: HostLink(pool), is_unified=False, depth=depth, min_bytes=min_bytes)


def _memory_place(num_bytes: int) -> Place:
    return MemoryPlace(num_bytes)
