from collections.abc import Sequence

import pytest
from observation_factory import steps_with

from steptune.core.units import BYTES_PER_MIB
from steptune.core.verdict import Judgement, Verdict
from steptune.guard.memory import check_memory


def judged(peaks_mib: Sequence[float | None]) -> Verdict:
    """Head-room of 20 % of 1000 MiB: 800 MiB may be used."""
    peaks = [None if peak is None else int(peak * BYTES_PER_MIB) for peak in peaks_mib]
    return check_memory(steps_with("memory_peak_bytes", peaks), total_bytes=1000 * BYTES_PER_MIB, headroom_frac=0.2)


def test_a_steady_peak_below_the_limit_passes() -> None:
    verdict = judged([600.0] * 6)
    assert verdict.judgement is Judgement.PASS
    assert verdict.measured is not None
    assert verdict.measured.value == 600 * BYTES_PER_MIB


def test_a_peak_in_the_head_room_fails() -> None:
    assert judged([600.0, 600.0, 801.0, 801.0, 801.0]).judgement is Judgement.FAIL
    assert judged([800.0] * 4).judgement is Judgement.PASS


def test_growth_that_breaks_the_limit_within_160_steps_never_passes() -> None:
    # 500 + 2 * 160 = 820 > 800, and 2 MiB at each of the seven steps before
    verdict = judged([500.0 + 2 * i for i in range(8)])
    assert verdict.judgement is Judgement.INCONCLUSIVE
    assert "grows 2 MiB per step" in verdict.because


def test_growth_that_levels_off_or_stays_small_passes() -> None:
    assert judged([500.0, 540.0, 560.0, *[570.0] * 9]).judgement is Judgement.PASS
    assert judged([500.0 + 0.1 * i for i in range(8)]).judgement is Judgement.PASS


@pytest.mark.parametrize("peaks", [[], [None] * 6, [600.0] * 5 + [None], [0.0] * 6, [600.0] * 3])
def test_missing_impossible_or_few_peaks_are_inconclusive(peaks: list[float | None]) -> None:
    assert judged(peaks).judgement is Judgement.INCONCLUSIVE


def test_a_peak_over_the_limit_fails_however_few_the_steps() -> None:
    assert judged([900.0]).judgement is Judgement.FAIL


def test_growth_that_begins_again_with_every_launch_is_seen() -> None:
    # 2 MiB a step in each of two launches; over both together the later half is no higher than the earlier
    grown = steps_with("memory_peak_bytes", [int((500.0 + 2 * i) * BYTES_PER_MIB) for i in range(6)])
    verdict = check_memory([*grown, *grown], total_bytes=1000 * BYTES_PER_MIB, headroom_frac=0.2)
    assert verdict.judgement is Judgement.INCONCLUSIVE
    assert "grows 2 MiB per step" in verdict.because


def test_a_block_on_a_fresh_launch_does_not_take_back_what_the_others_showed() -> None:
    steady = steps_with("memory_peak_bytes", [600 * BYTES_PER_MIB] * 6)
    verdict = check_memory([*steady, *steady[:3]], total_bytes=1000 * BYTES_PER_MIB, headroom_frac=0.2)
    assert verdict.judgement is Judgement.PASS
    few = check_memory([*steady[:3], *steady[:3]], total_bytes=1000 * BYTES_PER_MIB, headroom_frac=0.2)
    assert few.judgement is Judgement.PASS, "six steps, though of two launches"
