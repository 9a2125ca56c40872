"""Numbers a log may print and none may reckon with: not finite, beyond any quantity, or no count."""

import math
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reader_logs import FIXTURES, assert_is_sound

from steptune.readers.read_paste import read_paste
from steptune.readers.step import Reading
from steptune.readers.values import MAX_COUNT, MAX_MAGNITUDE, bounded, whole_count


@given(st.floats(), st.floats(), st.floats(), st.floats(), st.floats())
def test_no_product_or_quotient_of_five_readings_overflows(a: float, b: float, c: float, d: float, e: float) -> None:
    finite = [value for value in map(bounded, (a, b, c, d, e)) if value and math.isfinite(value)]
    assert math.isfinite(math.prod(finite))
    assert math.isfinite(math.prod(1 / value for value in finite))
    assert math.prod(finite) != 0


@given(st.floats())
def test_a_bounded_number_is_itself_or_an_extreme_of_its_sign(value: float) -> None:
    found = bounded(value)
    if math.isnan(value):
        assert math.isnan(found)
    else:
        assert found in (value, 0.0, math.inf, -math.inf)
        assert (found == value) or abs(value) > MAX_MAGNITUDE or abs(value) < 1 / MAX_MAGNITUDE
        assert found * value >= 0


@given(st.floats(), st.floats(min_value=0, max_value=0.4))
def test_a_count_is_a_whole_positive_number_near_the_value(value: float, tolerance: float) -> None:
    count = whole_count(value, tolerance=tolerance)
    if count is not None:
        assert 1 <= count <= MAX_COUNT
        assert abs(count - value) <= tolerance


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, None, 0.0, -8.0, 2.5, 1e12])
def test_what_is_not_finite_not_positive_or_between_two_is_no_count(value: float | None) -> None:
    assert whole_count(value) is None


def test_a_quotient_of_rounded_numbers_is_a_count_within_its_tolerance() -> None:
    assert whole_count(8.0004, tolerance=1e-3) == 8
    assert whole_count(0.9995, tolerance=1e-3) == 1
    assert whole_count(8.002, tolerance=1e-3) is None


def test_a_reading_keeps_the_digits_of_a_number_that_it_does_not_believe() -> None:
    reading = Reading(key="a", value=1e308, text="1e308", line=1)
    assert (reading.value, reading.text) == (math.inf, "1e308")


@pytest.mark.parametrize("broken", ["nan", "inf", "-inf", "1e308", "5e-324", "-1e308"])
def test_devices_and_cycles_of_broken_numbers_are_unknown_and_no_crash(tmp_path: Path, broken: str) -> None:
    path = tmp_path / "verl.log"
    lines = [
        f"step:{n} - timing_s/step:40.5 - timing_s/gen:30.25 - perf/throughput:{broken} - perf/time_per_step:40.5 - "
        f"perf/total_num_tokens:{broken} - training/global_step:{broken} - fully_async/count/current_param_version:{n}"
        for n in range(3, 9)
    ]
    path.write_text("\n".join(lines) + "\n")
    profile = read_paste([path]).profile
    assert profile is not None
    assert_is_sound(profile)
    assert all(role.num_devices is None for role in profile.roles)


@pytest.mark.parametrize("broken", ["nan", "1e308", "-1e308", "5e-324", "0"])
@pytest.mark.parametrize("name", [path.name for path in sorted(FIXTURES.glob("*.txt"))])
def test_a_log_all_of_broken_numbers_is_read(tmp_path: Path, name: str, broken: str) -> None:
    text = (FIXTURES / name).read_text(encoding="utf-8", errors="replace")
    path = tmp_path / name
    path.write_text(re.sub(r"\d+\.\d+", broken, text))
    paste = read_paste([path])
    if paste.profile is not None:
        assert_is_sound(paste.profile)


@pytest.mark.parametrize("number", ["5e-324", "1e-300", "1e300", "1e61", "-1e99", "9" * 70])
def test_a_setting_that_nothing_can_reckon_with_is_text(tmp_path: Path, number: str) -> None:
    (tmp_path / "job.yaml").write_text(f"a:\n  b: {number}\n  c: ${{oc.eval:${{a.d}}*2}}\n  d: {number}\n")
    (tmp_path / "post.txt").write_text(f"# fact: x.y={number}\npython -m verl.trainer.main_ppo a.b={number}\n")
    for path in tmp_path.iterdir():
        values = [setting.value for setting in read_paste([path]).settings]
        assert values
        assert all(isinstance(value, str) for value in values)


def test_a_product_of_settings_beyond_any_quantity_stays_unresolved(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text("a: 1e50\nb: ${mul:${a},${a}}\nc: ${mul:${a},2}\n")
    found = {setting.key: (setting.value, setting.is_resolved) for setting in read_paste([path]).settings}
    assert found["b"] == ("${mul:${a},${a}}", False)
    assert found["c"] == (2e50, True)
