"""The peak that a helping process reports: its own bytes, and none that it only looks into."""

import sys

import pytest
import torch

from steptune.engine.process import own_peak_memory_bytes, peak_memory_bytes

SHARED_BYTES = 32 << 20


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel says it on Linux only")
def test_shared_memory_is_not_a_process_s_own() -> None:
    before = difference()
    shared = torch.UntypedStorage._new_shared(SHARED_BYTES)
    shared.fill_(1)
    assert difference() - before == pytest.approx(SHARED_BYTES, rel=0.05)
    del shared


def difference() -> int:
    peak, own = peak_memory_bytes(), own_peak_memory_bytes()
    assert peak is not None
    assert own is not None
    return peak - own


def test_a_process_that_is_not_there_has_no_peak() -> None:
    assert peak_memory_bytes(2**22 + 1) is None
