import math
from collections import defaultdict

import pytest
from forecast_cases import (
    BASELINE,
    STEP_S,
    TOTAL_BYTES,
    busy,
    change,
    decode,
    handover,
    learnt,
    plan,
    prefill,
    profile,
    seconds,
    train,
)
from hypothesis import given
from hypothesis import strategies as st

from steptune.core.change import Change
from steptune.core.event import LearntFrom
from steptune.core.forecast import Forecast
from steptune.core.job import Objective
from steptune.core.phase import Role
from steptune.core.profile import Profile, RoleProfile
from steptune.core.records import content_hash
from steptune.core.work import PlannedWork
from steptune.forecast.forecast import forecast_change

MOVED = change(compact_finished=True)
counts = st.floats(0, 200)
sizes = st.floats(1, 400)


def forecast(
    planned: PlannedWork,
    moved: Change = MOVED,
    *,
    measured: Profile | None = None,
    history: tuple[LearntFrom, ...] = (),
    baseline: PlannedWork = BASELINE,
) -> Forecast:
    return forecast_change(
        profile=measured or profile(),
        planned_baseline=baseline,
        planned=planned,
        change=moved,
        history=history,
        total_memory_bytes=TOTAL_BYTES,
        headroom_frac=0.2,
        objective=Objective.STEP_TIME,
    )


def test_the_worked_example() -> None:
    # decode 40 x 6 ms x 1.0 = 0.24; train 2 x 0.2 x 1.25 = 0.5; prefill 0.12, rest 0.04, reward 0.05, unattributed 0.01
    made = forecast(plan(prefill(), decode(x=51), train(count=2)))
    assert made.step_time.value == pytest.approx(0.96)
    assert made.ratio.value == pytest.approx(0.96 / STEP_S)
    assert {(p.role, p.phase): round(p.seconds, 9) for p in made.phases} == {
        ("controller", "reward"): 0.05,
        ("controller", "unattributed"): 0.01,
        ("rollout", "rollout"): 0.40,
        ("rollout", "rollout/decode"): 0.24,
        ("rollout", "rollout/prefill"): 0.12,
        ("trainer", "train"): 0.5,
    }
    assert made.idle_s == pytest.approx({"controller": 0.9, "rollout": 0.56, "trainer": 0.46})
    assert (made.lag, made.memory_fits, made.refused) == (0, True, None)
    assert made.profile_hash == content_hash(profile())


def test_the_worked_example_overlapped() -> None:
    # rollout side 0.40, trainer side 0.5, serial 0.06 + hand-over 20 ms x 1.25: 0.5 + 0.08 x 0.40 + 0.085
    made = forecast(plan(prefill(), decode(x=51), train(count=2), handover(), schedule="one_step_off"))
    assert made.step_time.value == pytest.approx(0.617)
    assert made.lag == 1


def test_the_baseline_against_itself_is_exactly_one() -> None:
    made = forecast(BASELINE, change())
    assert made.ratio.value == 1.0
    assert made.step_time.value == STEP_S


def test_spans_that_overlap_do_not_break_the_ratio_or_the_sum() -> None:
    # phases measured 1.65 s in a step of 1.5: roles worked at the same time
    made = forecast(BASELINE, change(), measured=profile(step_time=seconds(1.5)))
    assert made.ratio.value == 1.0
    assert math.fsum(p.seconds for p in made.phases if "/" not in p.phase) == pytest.approx(1.5)


def test_a_missing_curve_refuses_and_shows_no_number() -> None:
    made = forecast(plan(prefill(), decode(), train(recompute=True)))
    assert made.refused is not None
    assert "measure `train` under recompute=True" in made.refused
    assert math.isnan(made.ratio.value)
    assert math.isnan(made.step_time.value)


@pytest.mark.parametrize("count", [math.nan, math.inf])
def test_a_count_that_is_no_number_refuses(count: float) -> None:
    made = forecast(plan(prefill(), decode(count=count), train()))
    assert made.refused is not None
    assert math.isnan(made.ratio.value)


def test_a_step_of_no_time_is_refused() -> None:
    # one role, one phase, nothing carried over: a plan without items would take zero seconds
    trainer = RoleProfile(role=Role.TRAINER, wall_s=1.0, phases=(busy(Role.TRAINER, "train", 1.0),))
    measured = profile(step_time=seconds(1.0), roles=(trainer,))
    assert "a step of 0.0 s" in (forecast(plan(), measured=measured, baseline=plan(train())).refused or "")


def test_a_profile_without_curves_refuses() -> None:
    assert "measure `prefill`" in (forecast(BASELINE, measured=profile(costs=())).refused or "")


def test_an_asynchronous_profile_cannot_calibrate_a_synchronous_plan() -> None:
    assert "disagree on the schedule" in (forecast(BASELINE, measured=profile(schedule="async")).refused or "")


def test_a_forecast_survives_the_journal_bit_for_bit() -> None:
    history = (learnt(0.7, 0.75, compact_finished=True),)
    planned = plan(prefill(), decode(x=33.3), train(count=1.7))
    made = forecast(planned, history=history)
    read = Profile.model_validate_json(profile().model_dump_json())
    again = forecast(
        PlannedWork.model_validate_json(planned.model_dump_json()),
        measured=read,
        history=tuple(LearntFrom.model_validate_json(h.model_dump_json()) for h in history),
    )
    assert again == made
    assert Forecast.model_validate_json(made.model_dump_json()) == made


def test_trials_correct_candidates_that_share_a_move() -> None:
    planned = plan(prefill(), decode(x=51), train())
    history = (learnt(0.7, 0.77, compact_finished=True),)
    first, later = forecast(planned), forecast(planned, history=history)
    assert first.ratio.value < later.ratio.value < first.ratio.value * 1.1
    assert later.num_free_parameters == first.num_free_parameters + 1
    assert later.trials_used == (MOVED.signature,)


@given(x=sizes, count=counts, more=st.floats(0, 100), schedule=st.sampled_from(["sync", "one_step_off"]))
def test_more_work_is_never_forecast_faster(x: float, count: float, more: float, schedule: str) -> None:
    less = plan(prefill(), decode(x=x, count=count), train(), schedule=schedule)
    extra = plan(prefill(), decode(x=x, count=count + more), train(), schedule=schedule)
    assert forecast(extra).ratio.value >= forecast(less).ratio.value


@given(x=sizes, count=counts, scale=st.floats(0.01, 100), schedule=st.sampled_from(["sync", "one_step_off"]))
def test_a_machine_k_times_slower_takes_k_times_as_long(x: float, count: float, scale: float, schedule: str) -> None:
    planned = plan(prefill(), decode(x=x, count=count), train(), handover(), schedule=schedule)
    one, k = forecast(planned), forecast(planned, measured=profile(scale=scale, curve_scale=scale))
    assert k.ratio.value == pytest.approx(one.ratio.value)
    assert k.step_time.value == pytest.approx(one.step_time.value * scale)


@given(scale=st.floats(0.01, 100))
def test_the_unit_of_the_curves_is_calibrated_away(scale: float) -> None:
    planned = plan(prefill(), decode(x=51), train(count=3), handover(), schedule="one_step_off")
    assert forecast(planned, measured=profile(curve_scale=scale)).ratio.value == pytest.approx(
        forecast(planned).ratio.value
    )


@given(x=sizes, count=counts, schedule=st.sampled_from(["sync", "one_step_off"]), tried=st.booleans())
def test_phases_and_idle_of_every_role_make_up_the_step(x: float, count: float, schedule: str, tried: bool) -> None:
    history = (learnt(0.7, 0.9, compact_finished=True),) if tried else ()
    made = forecast(plan(prefill(), decode(x=x, count=count), train(), schedule=schedule), history=history)
    wall_s: dict[str, float] = defaultdict(float, made.idle_s)
    for phase in made.phases:
        if "/" not in phase.phase:
            wall_s[phase.role] += phase.seconds
    assert set(wall_s) == {"controller", "rollout", "trainer"}
    for seconds_of_role in wall_s.values():
        assert seconds_of_role == pytest.approx(made.step_time.value)


def overlapped_profile() -> Profile:
    """Return what `test_the_worked_example_overlapped` would measure: both sides stretched by contention."""
    stretch = 1 + 0.08 * 0.40 / 0.5
    rollout = (busy(Role.ROLLOUT, "rollout", 0.40 * 1.08),)
    trainer = (busy(Role.TRAINER, "train", 0.5 * stretch), busy(Role.TRAINER, "weight_sync", 0.085))
    return profile(
        schedule="async",
        step_time=seconds(0.617),
        roles=(
            RoleProfile(role=Role.ROLLOUT, wall_s=0.617, phases=rollout),
            RoleProfile(role=Role.TRAINER, wall_s=0.617, phases=trainer),
        ),
    )


def test_an_overlapped_baseline_can_be_taken_apart_again() -> None:
    # without contention and overlap: 0.40 + 0.5 + 0.085
    items = (prefill(), decode(x=51), train(count=2), handover())
    baseline = plan(*items, schedule="one_step_off")
    made = forecast(plan(*items), measured=overlapped_profile(), baseline=baseline)
    assert made.step_time.value == pytest.approx(0.985)


def test_interval_and_source_are_said() -> None:
    made = forecast(BASELINE)
    assert made.ratio.low is not None
    assert made.ratio.high is not None
    assert made.ratio.low < 1 < made.ratio.high
    assert (made.ratio.source.value, made.ratio.note) == ("forecast", "80 % interval")
