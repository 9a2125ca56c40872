import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steptune.core.phase import Role
from steptune.forecast.step import CONTENTION, Side, idle_by_role, lay_out, side_of, undisturbed

ROLLOUT, TRAIN = (Role.ROLLOUT, "rollout"), (Role.TRAINER, "train")
SYNC, ADVANTAGE = (Role.TRAINER, "weight_sync"), (Role.CONTROLLER, "advantage")
KEYS = (ROLLOUT, TRAIN, SYNC, ADVANTAGE, (Role.ENVIRONMENT, "reward"), (Role.TRAINER, "old_logprob"))
times = st.fixed_dictionaries({key: st.floats(0, 100) for key in KEYS})


def test_who_stops_whom() -> None:
    assert [side_of(key) for key in KEYS] == [
        Side.ROLLOUT,
        Side.TRAINER,
        Side.SERIAL,
        Side.SERIAL,
        Side.ROLLOUT,
        Side.TRAINER,
    ]


def test_reading_new_weights_stops_nobody_but_the_rollout() -> None:
    assert side_of((Role.ROLLOUT, "weight_sync")) is Side.ROLLOUT
    # 0.5 + 0.06 of the rollout beside 1.0: 1.0 + 0.08 x 0.56, and nothing serial
    step = lay_out("one_step_off", {ROLLOUT: 0.5, (Role.ROLLOUT, "weight_sync"): 0.06, TRAIN: 1.0})
    assert step.step_s == pytest.approx(1.0 + 0.08 * 0.56)


@given(times)
def test_a_synchronous_step_is_the_sum_of_its_phases(alone_s: dict) -> None:
    step = lay_out("sync", alone_s)
    assert step.step_s == math.fsum(alone_s.values())
    assert step.overlapped_s == 0


def test_an_overlapped_step_is_the_longer_side_plus_contention_plus_hand_over() -> None:
    # 1.0 + 0.08 x 0.6 + 0.1 = 1.148; the rollout works 0.6 x 1.08 = 0.648 and waits 0.5
    step = lay_out("one_step_off", {ROLLOUT: 0.6, TRAIN: 1.0, SYNC: 0.1})
    assert step.step_s == pytest.approx(1.148)
    assert idle_by_role(step) == {Role.ROLLOUT: pytest.approx(0.5), Role.TRAINER: pytest.approx(0.0)}


@given(times)
def test_an_overlapped_step_lies_between_the_longer_side_and_both_in_turn(alone_s: dict) -> None:
    step_s = lay_out("one_step_off", alone_s).step_s
    rollout = math.fsum(s for key, s in alone_s.items() if side_of(key) is Side.ROLLOUT)
    trainer = math.fsum(s for key, s in alone_s.items() if side_of(key) is Side.TRAINER)
    assert step_s >= max(rollout, trainer)
    assert step_s <= lay_out("sync", alone_s).step_s * (1 + 1e-9)


@given(times, st.sampled_from(["sync", "one_step_off"]))
def test_a_role_is_busy_or_idle_all_step_long(alone_s: dict, schedule: str) -> None:
    step = lay_out(schedule, alone_s)
    for role, idle_s in idle_by_role(step).items():
        busy_s = math.fsum(s for key, s in step.seconds.items() if key[0] is role)
        assert busy_s + idle_s == pytest.approx(step.step_s)
        assert idle_s >= -1e-9 * step.step_s


@given(times)
def test_contention_can_be_taken_out_again(alone_s: dict) -> None:
    busy_s = lay_out("one_step_off", alone_s).seconds
    assert undisturbed("one_step_off", busy_s) == pytest.approx(alone_s, abs=1e-9)


def test_sides_that_overlap_slow_each_other_down() -> None:
    assert CONTENTION > 1
