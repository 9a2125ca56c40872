import math
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from steptune.compare.compare import compare
from steptune.core.comparison import SpeedVerdict
from steptune.core.paste import DeviceClaim, Paste, Series, SeriesPoint, Setting, ValueStatus
from steptune.core.profile import Origin

ORIGIN = Origin(path="x", line=1, key="")
NAMES = (
    *("step_time", "tokens", "tokens_per_device_s", "reward", "clipped_frac", "async_level"),
    *("completion_mean", "prompt_mean", "memory_allocated_gib", "mfu", "other"),
)
KEYS = (
    "data.train_batch_size",
    "actor_rollout_ref.rollout.n",
    "rollout.dtype",
    "trainer.n_gpus_per_node",
    "num-generations",
)
NUMBERS = st.one_of(st.floats(), st.just(0.0), st.floats(min_value=1.0, max_value=1e4))
VALUES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5))


@st.composite
def series(draw: st.DrawFn) -> Series:
    values = draw(st.lists(NUMBERS, max_size=8))
    statuses = st.sampled_from(list(ValueStatus))
    points = tuple(SeriesPoint(step=i, value=v, line=i, status=draw(statuses)) for i, v in enumerate(values))
    name = draw(st.sampled_from(NAMES))
    return Series(name=name, key=name, points=points, path="x")


@st.composite
def setting(draw: st.DrawFn) -> Setting:
    value = draw(VALUES)
    layer: Any = draw(st.sampled_from(["default", "file", "code", "override", "env"]))
    key = draw(st.sampled_from(KEYS))
    return Setting(key=key, value=value, text=str(value), layer=layer, origin=ORIGIN, is_resolved=draw(st.booleans()))


PASTES = st.builds(
    Paste,
    paths=st.just(("x",)),
    framework=st.sampled_from([None, "verl", "trl", "nobody"]),
    framework_version=st.sampled_from([None, "0.7", "0.8"]),
    settings=st.lists(setting(), max_size=5).map(tuple),
    series=st.lists(series(), max_size=5).map(tuple),
    devices=st.one_of(
        st.none(), st.builds(DeviceClaim, count=st.one_of(st.none(), st.integers(0, 64)), origin=st.just(ORIGIN))
    ),
)


@settings(max_examples=100)
@given(PASTES, PASTES)
def test_any_two_pastes_are_answered_and_claims_have_an_interval(a: Paste, b: Paste) -> None:
    said = compare(a, b)
    assert said.reason
    for ratio in (said.raw_step_ratio, said.throughput_ratio):
        assert ratio is None or (math.isfinite(ratio.value) and ratio.low is not None and ratio.low <= ratio.value)
    if said.verdict is not SpeedVerdict.NO_PROOF:
        assert not [one for one in said.work if one.is_declared]
    assert said.model_dump_json()


@settings(max_examples=50)
@given(PASTES)
def test_nothing_is_faster_than_itself(paste: Paste) -> None:
    said = compare(paste, paste)
    assert said.verdict is SpeedVerdict.NO_PROOF
    assert said.work == ()
    assert said.settings == ()
