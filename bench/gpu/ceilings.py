"""What the device can do: its best matrix product, its memory and its link, measured for a second or two.

The same run measures how far from these the engine is; a data sheet's numbers would be another machine's.
"""

from collections.abc import Callable

import torch

from gpu.record import Ceilings
from gpu.site import Site

SIZES, TINY_SIZES = (4096, 8192), (128,)
"""Widths of square products; the best rate counts."""

STREAM_BYTES, TINY_STREAM_BYTES = 2**30, 2**22
"""Bytes of a copy: far above every cache of a GPU."""

REPEATS = 10


def ceilings(site: Site) -> Ceilings:
    """Measure all of them."""
    sizes = TINY_SIZES if site.is_tiny else SIZES
    num_bytes = TINY_STREAM_BYTES if site.is_tiny else STREAM_BYTES
    to_host = to_device = None
    if site.is_cuda:
        to_host, to_device = _link_bytes_per_s(site, num_bytes // 4)
    return Ceilings(
        matmul_bf16_flop_per_s=max(_matmul_flop_per_s(site, n, torch.bfloat16) for n in sizes),
        matmul_fp32_flop_per_s=max(_matmul_flop_per_s(site, n, torch.float32) for n in sizes[:1]),
        memory_bytes_per_s=_stream_bytes_per_s(site, num_bytes),
        to_host_bytes_per_s=to_host,
        to_device_bytes_per_s=to_device,
    )


def _best_s(site: Site, call: Callable[[], object]) -> float:
    """Return the shortest of several times: a ceiling is what is possible."""
    call()
    return min(site.seconds(call) for _ in range(REPEATS))


def _matmul_flop_per_s(site: Site, n: int, dtype: torch.dtype) -> float:
    a, b = (torch.randn(n, n, device=site.device).to(dtype) for _ in range(2))
    return 2 * n**3 / _best_s(site, lambda: a @ b)


def _stream_bytes_per_s(site: Site, num_bytes: int) -> float:
    source = torch.zeros(num_bytes // 4, device=site.device)
    target = torch.empty_like(source)
    return 2 * source.nbytes / _best_s(site, lambda: target.copy_(source))


def _link_bytes_per_s(site: Site, num_bytes: int) -> tuple[float, float]:
    """Return bytes per second to pinned host memory and back."""
    host = torch.empty(num_bytes, dtype=torch.uint8, pin_memory=True)
    device = torch.empty(num_bytes, dtype=torch.uint8, device=site.device)
    there_s = _best_s(site, lambda: host.copy_(device, non_blocking=True))
    back_s = _best_s(site, lambda: device.copy_(host, non_blocking=True))
    return num_bytes / there_s, num_bytes / back_s
