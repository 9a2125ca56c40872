import pytest
from forecast_cases import BASELINE, decode, handover, plan, train
from hypothesis import given
from hypothesis import strategies as st

from steptune.core.phase import Role
from steptune.forecast.parts import PARTS, part_of, parts_of, priced_by
from steptune.forecast.step import lay_out

KEYS = (
    (Role.ROLLOUT, "rollout/decode"),
    (Role.ROLLOUT, "weight_sync"),
    (Role.TRAINER, "train"),
    (Role.TRAINER, "old_logprob"),
    (Role.TRAINER, "weight_sync"),
    (Role.ENVIRONMENT, "reward"),
    (Role.CONTROLLER, "unattributed"),
)
times = st.fixed_dictionaries({key: st.floats(0, 100) for key in KEYS})


@given(times, st.sampled_from(["sync", "one_step_off"]))
def test_parts_make_the_step_that_their_phases_make(alone_s: dict, schedule: str) -> None:
    assert parts_of(schedule, alone_s).step_s == pytest.approx(lay_out(schedule, alone_s).step_s)


def test_every_phase_that_has_prices_belongs_to_a_part_and_nothing_else_does() -> None:
    assert [part_of(key) for key in KEYS] == ["rollout", "load", "train", "train", "handover", None, None]


def test_a_part_is_multiplied_alone() -> None:
    parts = parts_of("sync", dict.fromkeys(KEYS, 1.0))
    assert parts.times({"train": 1.5}).step_s == pytest.approx(7 + 0.5 * 2)
    assert parts.times(dict.fromkeys(PARTS, 1.0)) == parts


def test_a_plan_says_which_knobs_choose_the_curves_of_each_part() -> None:
    found = priced_by(plan(decode(), train(), handover()))
    assert found == {
        "rollout": {"rollout_threads", "rollout_dtype"},
        "train": {"recompute"},
        "handover": frozenset(),
    }
    assert "handover" not in priced_by(BASELINE)
