import statistics

import pytest
import torch

from steptune.engine.arrival import SAMPLED_ELEMENTS, changed_frac, same_bits

GIVEN = torch.randn(64, 48)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_every_bit_of_the_cast_counts_however_the_replica_lays_it_out(dtype: torch.dtype) -> None:
    held = GIVEN.to(dtype).clone()
    assert same_bits(held, GIVEN)
    assert same_bits(held.t().contiguous().t(), GIVEN)
    bits = held.view(torch.int16 if dtype == torch.bfloat16 else torch.int32)
    bits[63, 47] ^= 1
    assert not same_bits(held, GIVEN)


def test_nan_is_the_same_bits_and_another_shape_is_not() -> None:
    broken = GIVEN.clone()
    broken[3, 3] = torch.nan
    assert same_bits(broken.clone(), broken)
    assert same_bits(broken, broken), "the trainer's own tensor"
    assert not same_bits(GIVEN[:63].clone(), GIVEN)


def test_what_changed_is_counted_in_all_of_a_small_tensor_and_in_some_rows_of_a_large_one() -> None:
    old = {"norm": torch.zeros(48), "large": torch.zeros(2000, 48)}
    new = {"norm": torch.arange(48).float(), "large": torch.zeros(2000, 48)}
    new["large"][::4] = 1.0
    rows = SAMPLED_ELEMENTS // 48
    # 47 of 48 elements of the norm, a quarter of the rows that are looked at
    seen = [changed_frac(old, new, version) or 0.0 for version in range(20)]
    assert seen[0] == pytest.approx((47 + 48 * -(-rows // 4)) / (48 + 48 * rows))
    assert statistics.fmean(seen) == pytest.approx(0.25, abs=0.01)
    assert changed_frac(old, old, 3) == 0.0
    assert changed_frac({}, new, 3) is None


def test_a_row_that_changes_alone_is_looked_at_sooner_or_later() -> None:
    old = {"large": torch.zeros(1000, 48)}
    new = {"large": torch.zeros(1000, 48)}
    new["large"][777] = 1.0
    assert any(changed_frac(old, new, version) for version in range(12))
