"""When offloading switches itself off, and why."""

import math

import pytest

from steptune.engine.offload.decide import MAX_SLOWDOWN, MIN_BYTES, MIN_COPY_RATIO, Situation, decide

BIG = 2**28


def situation(**changes: object) -> Situation:
    """Return a situation in which it helps, changed."""
    fields: dict[str, object] = {"is_unified": False, "num_layers": 36, "input_bytes": BIG, **changes}
    return Situation(**fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "because"),
    [
        ({"is_unified": True}, "frees nothing"),
        ({"num_layers": 2}, "2 layers"),
        ({"input_bytes": MIN_BYTES - 1}, "below 2.1 MB"),
        # 36 layers of 10 ms against 10 + 35 * 16 ms: 570 / 360 = 1.58
        ({"layer_s": 0.010, "copy_s": 0.016}, "1.58 times as long"),
        ({"layer_s": 0.010, "copy_s": math.nan}, "not a measurement"),
        ({"layer_s": math.nan, "copy_s": 0.001}, "not a measurement"),
    ],
)
def test_it_is_off_with_a_reason(changes: dict[str, object], because: str) -> None:
    decision = decide(situation(**changes))
    assert not decision.is_on
    assert because in decision.because


def test_it_is_on_where_copies_hide_or_are_not_yet_measured() -> None:
    assert decide(situation()).depth == 1
    assert "not measured" in decide(situation()).because
    assert decide(situation(layer_s=0.010, copy_s=0.010), depth=3).depth == 3
    assert decide(situation(num_layers=3, input_bytes=MIN_BYTES)).is_on


def test_copies_too_short_to_matter_get_one_slot() -> None:
    short, long = 0.99 * MIN_COPY_RATIO, 1.01 * MIN_COPY_RATIO
    assert decide(situation(layer_s=1.0, copy_s=short)).depth == 0
    assert decide(situation(layer_s=1.0, copy_s=long)).depth == 1


def test_the_slowest_copy_allowed_follows_from_the_closed_form() -> None:
    # c = 1, 36 layers: (1 + 35 m) / 36 = MAX_SLOWDOWN at m = (36 * MAX_SLOWDOWN - 1) / 35
    edge = (36 * MAX_SLOWDOWN - 1) / 35
    assert decide(situation(layer_s=1.0, copy_s=0.999 * edge)).is_on
    assert not decide(situation(layer_s=1.0, copy_s=1.001 * edge)).is_on
