import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from steptune.core.estimate import Estimate, Source
from steptune.core.records import Record, canonical_json, content_hash

NUMBERS = st.floats(allow_nan=True, allow_infinity=True)


class Reading(Record):
    """A record of the test's own."""

    value: float
    values: tuple[float, ...] = ()
    by_name: dict[str, float | None] = {}


def same(a: float | None, b: float | None) -> bool:
    """Equality that holds NaN to be NaN."""
    if a is None or b is None:
        return a is b
    return (math.isnan(a) and math.isnan(b)) or a == b


@given(NUMBERS, st.lists(NUMBERS, max_size=5), st.dictionaries(st.text(max_size=3), st.none() | NUMBERS, max_size=3))
def test_every_float_survives_the_round_trip_nan_and_infinity_too(
    value: float, values: list[float], by_name: dict[str, float | None]
) -> None:
    reading = Reading(value=value, values=tuple(values), by_name=by_name)
    again = Reading.model_validate_json(reading.model_dump_json())
    assert same(again.value, value)
    assert all(same(a, b) for a, b in zip(again.values, values, strict=True))
    assert all(same(again.by_name[k], v) for k, v in by_name.items())
    assert canonical_json(again) == canonical_json(reading)


def test_nan_is_neither_null_nor_invalid_json() -> None:
    text = canonical_json(Reading(value=math.nan, values=(math.inf, -math.inf)))
    raw = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert raw == {"value": "NaN", "values": ["Infinity", "-Infinity"], "by_name": {}}


def test_the_canonical_text_does_not_depend_on_the_order_of_a_dictionary() -> None:
    a = Reading(value=1.0, by_name={"x": 1.0, "a": 2.0})
    b = Reading(value=1.0, by_name={"a": 2.0, "x": 1.0})
    assert canonical_json(a) == canonical_json(b)
    assert content_hash(a) == content_hash(b)
    assert " " not in canonical_json(a)


def test_the_hash_tells_contents_apart() -> None:
    hashes = {content_hash(Reading(value=value)) for value in (0.0, 1.0, math.nan, math.inf, 1.0 + 1e-15)}
    assert len(hashes) == 5
    assert all(len(text) == 12 for text in hashes)


def test_an_unknown_field_is_refused_and_a_record_does_not_change() -> None:
    with pytest.raises(ValidationError, match="extra_forbidden"):
        Reading.model_validate({"value": 1.0, "extra": 2.0})
    reading = Reading(value=1.0)
    with pytest.raises(ValidationError, match="frozen"):
        reading.value = 2.0  # type: ignore[misc]


def estimate(value: float, low: float | None = None, high: float | None = None, n: int | None = None) -> Estimate:
    return Estimate(value=value, low=low, high=high, unit="s", source=Source.MEASURED, n=n)


def test_an_estimate_says_value_unit_interval_source_and_number() -> None:
    assert str(estimate(1.02, 0.99, 1.06, n=8)) == "1.02 s (0.99 to 1.06, measured, n=8)"
    assert str(estimate(1.02)) == "1.02 s (measured)"
    assert str(estimate(math.nan, n=3)) == "nan s (measured, n=3)"
    plain = Estimate(value=3, unit="1", source=Source.DERIVED)
    assert str(plain) == "3 (derived)"


def test_half_an_interval_is_not_printed_as_one() -> None:
    assert str(estimate(1.0, low=0.9)) == "1 s (measured)"


def test_an_interval_upside_down_is_refused() -> None:
    with pytest.raises(ValidationError, match="upside down"):
        estimate(1.0, 1.1, 0.9)
    assert estimate(1.0, 1.0, 1.0).low == 1.0


def test_there_is_no_default_source() -> None:
    with pytest.raises(ValidationError, match="source"):
        Estimate.model_validate({"value": 1.0, "unit": "s"})
