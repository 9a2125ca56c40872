import math

import pytest
from forecast_cases import BASELINE, CURVES, busy, decode, handover, plan, prefill, profile, seconds, train

from steptune.core.phase import Role
from steptune.core.profile import Profile, RoleProfile
from steptune.core.work import PlannedWork
from steptune.forecast.calibrate import UNATTRIBUTED, Calibration, calibrate, calibrated
from steptune.forecast.curve import CostBook, ForecastError
from steptune.forecast.side import side_costs


def fitted(measured: Profile, planned: PlannedWork = BASELINE) -> Calibration:
    return calibrate(measured, planned, side_costs(planned, CostBook(curves=CURVES)))


def with_rollout_phases(*phases: tuple[str, float]) -> Profile:
    rollout = RoleProfile(
        role=Role.ROLLOUT, wall_s=1.66, phases=tuple(busy(Role.ROLLOUT, name, s) for name, s in phases)
    )
    return profile(roles=(rollout, *profile().roles[1:]))


def test_each_measured_phase_has_its_own_factor() -> None:
    calibration = fitted(profile())
    assert calibration.factor((Role.ROLLOUT, "rollout/prefill")) == pytest.approx(0.12 / 0.1)
    assert calibration.factor((Role.ROLLOUT, "rollout/decode")) == pytest.approx(0.44 / 0.44)
    assert calibration.factor((Role.TRAINER, "train")) == pytest.approx(1.0 / 0.8)


def test_what_no_item_explains_is_carried_over() -> None:
    # rollout 0.6 - 0.12 - 0.44; reward has no item; 1.66 - 0.6 - 1.0 - 0.05 is in no span
    calibration = fitted(profile())
    assert calibration.carried_s == {
        (Role.ROLLOUT, "rollout"): pytest.approx(0.04),
        (Role.CONTROLLER, "reward"): pytest.approx(0.05),
        UNATTRIBUTED: pytest.approx(0.01),
    }
    assert calibration.num_free == 6  # three factors and these three


def test_waiting_inside_a_phase_is_carried_and_not_multiplied() -> None:
    # a pause of 0.5 s in every hand-over of 20 ms; decode has the smallest factor of the large phases, 1.0
    trainer = RoleProfile(
        role=Role.TRAINER,
        wall_s=2.18,
        phases=(busy(Role.TRAINER, "train", 1.0), busy(Role.TRAINER, "weight_sync", 0.52)),
    )
    measured = profile().model_copy(update={"roles": (profile().roles[0], trainer, profile().roles[2])})
    calibration = fitted(measured, plan(prefill(), decode(), train(), handover()))
    assert calibration.factor((Role.TRAINER, "weight_sync")) == pytest.approx(1.25)
    assert calibration.carried_s[Role.TRAINER, "weight_sync"] == pytest.approx(0.52 - 1.25 * 0.02)


def test_a_machine_that_is_slow_all_over_is_a_factor_and_no_waiting() -> None:
    slow, plain = fitted(profile(scale=3.0)), fitted(profile())
    assert slow.factor((Role.TRAINER, "train")) == pytest.approx(3 * plain.factor((Role.TRAINER, "train")))
    assert (Role.TRAINER, "train") not in slow.carried_s


def test_children_that_were_not_measured_share_their_parents_factor() -> None:
    calibration = fitted(with_rollout_phases(("rollout", 0.6)))
    assert calibration.factor((Role.ROLLOUT, "rollout/prefill")) == pytest.approx(0.6 / 0.54)
    assert calibration.factor((Role.ROLLOUT, "rollout/decode")) == pytest.approx(0.6 / 0.54)


def test_a_parent_that_only_has_children_is_their_sum() -> None:
    calibration = fitted(with_rollout_phases(("rollout/prefill", 0.12), ("rollout/decode", 0.44)))
    assert (Role.ROLLOUT, "rollout") not in calibration.carried_s
    assert calibration.carried_s[UNATTRIBUTED] == pytest.approx(0.05)


def test_a_phase_the_baseline_does_not_have_takes_its_roles_factor() -> None:
    calibration = fitted(profile())
    assert calibration.factor((Role.TRAINER, "old_logprob")) == pytest.approx(1.25)
    assert calibration.factor((Role.ENVIRONMENT, "reward")) == pytest.approx(1.56 / 1.34)


def test_a_tiny_phase_is_shrunk_towards_its_role() -> None:
    # hand-over measured 8.3 ms = 0.5 % of the step, a quarter of what earns full trust; own factor 0.415
    measured = profile()
    trainer = RoleProfile(
        role=Role.TRAINER,
        wall_s=1.66,
        phases=(busy(Role.TRAINER, "train", 1.0), busy(Role.TRAINER, "weight_sync", 0.0083)),
    )
    roles = (measured.roles[0], trainer, measured.roles[2])
    calibration = fitted(measured.model_copy(update={"roles": roles}), plan(prefill(), decode(), train(), handover()))
    role_factor = 1.0083 / 0.82
    expected = math.exp(0.25 * math.log(0.415) + 0.75 * math.log(role_factor))
    assert calibration.factor((Role.TRAINER, "weight_sync")) == pytest.approx(expected)


def test_a_plan_of_which_nothing_was_measured_is_refused() -> None:
    idle = tuple(role.model_copy(update={"phases": ()}) for role in profile().roles)
    with pytest.raises(ForecastError, match="no planned phase was measured"):
        fitted(profile(roles=idle))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0, 0.0])
def test_a_step_time_that_is_no_positive_number_is_refused(bad: float) -> None:
    with pytest.raises(ForecastError, match="not a positive number of seconds"):
        fitted(profile(step_time=seconds(bad)))


def test_what_uneven_sides_exceed_the_longer_one_by_is_less_where_they_lie_further_apart() -> None:
    overlapped = plan(prefill(), decode(), train(), schedule="one_step_off")
    calibration = fitted(profile(step_s=1.2), overlapped)

    def beyond_s(planned: PlannedWork) -> float:
        costs = side_costs(planned, CostBook(curves=CURVES))
        return calibrated(costs, calibration.under(planned.schedule)).get(UNATTRIBUTED, 0.0)

    # trainer 1.0, rollout 0.6 with its reward's 0.05 beside: 1.0 + 0.08 x 0.6 / 1.08 less than the measured 1.2
    own_s = beyond_s(overlapped)
    assert own_s > 0.05
    assert beyond_s(plan(prefill(), decode(count=4), train(), schedule="one_step_off")) < 0.8 * own_s
    assert beyond_s(plan(prefill(), decode(), train())) == 0.0
