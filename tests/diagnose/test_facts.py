import math

from diagnose_cases import asynchronous, noise_floor, role, sync

from steptune.core.bottleneck import BottleneckKind
from steptune.core.phase import Phase, Role
from steptune.diagnose.facts import MIN_SHARE_FRAC, UNKNOWN_NOISE_SHARE_FRAC, cost_s, found, share_threshold

KIND = BottleneckKind.MODE_SWITCH


def test_a_second_booked_as_busy_and_as_wait_counts_once() -> None:
    assert cost_s(sync({"rollout": 0.6, "train": 0.4}), Phase.ROLLOUT) == 0.6


def test_children_count_only_where_their_parent_is_not_booked() -> None:
    assert cost_s(sync({"rollout": 0.6, "rollout/decode": 0.5}), Phase.ROLLOUT) == 0.6
    assert cost_s(sync({"reward/verify": 0.2, "reward/parse": 0.1}), Phase.REWARD) == math.fsum([0.2, 0.1])


def test_hidden_work_of_an_asynchronous_rollout_costs_nothing() -> None:
    hidden = role(Role.ROLLOUT, 10, {"reward": 4.0})
    assert cost_s(asynchronous(trainer_busy={"train": 9}, rollout=hidden), Phase.REWARD) == 0
    assert cost_s(asynchronous(trainer_busy={"train": 9}, trainer_wait={"reward": 1.0}), Phase.REWARD) == 1.0


def test_the_threshold_is_twice_the_noise() -> None:
    assert share_threshold(sync({}, noise=noise_floor(0.01, 0.03))) == 0.06
    assert share_threshold(sync({}, noise=noise_floor(0.001, 0.001))) == MIN_SHARE_FRAC
    assert share_threshold(sync({}, noise=None)) == UNKNOWN_NOISE_SHARE_FRAC
    assert share_threshold(sync({}, noise=noise_floor(math.nan, 0.0))) == UNKNOWN_NOISE_SHARE_FRAC


def test_a_cost_that_is_no_number_is_never_found() -> None:
    for cost in (math.nan, math.inf, 0.01):
        assert found(KIND, sync({}), 0.02, cost_s=cost, evidence="", levers=()) is None


def test_share_and_ceiling_are_two_views_of_one_cost() -> None:
    bottleneck = found(KIND, sync({}, step_s=2.0), 0.02, cost_s=0.5, evidence="e", levers=("schedule",))
    assert bottleneck is not None
    assert (bottleneck.share.value, bottleneck.ceiling.value) == (0.25, 1.5)


def test_a_cost_beyond_the_step_is_the_whole_step() -> None:
    # phases of two roles that overlap can add up to more than the step
    bottleneck = found(KIND, sync({}, step_s=2.0), 0.02, cost_s=3.0, evidence="e", levers=())
    assert bottleneck is not None
    assert (bottleneck.share.value, bottleneck.ceiling.value) == (1.0, 0.0)
