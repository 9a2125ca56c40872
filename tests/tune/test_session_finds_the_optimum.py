import math
from dataclasses import replace
from pathlib import Path

import pytest
from fake_sessions import job_of, run_session

from steptune.core.decision import Outcome
from steptune.core.job import LimitsSpec, Objective
from steptune.core.knob import Effect, KnobValue
from steptune.core.phase import Role
from steptune.core.verdict import Judgement
from steptune.report.session_view import view_session
from steptune.report.stage_costs import total_cost
from steptune.store.journal import read_journal
from steptune.testing.fake_space import (
    COMPACTION,
    CORRECTION,
    ONE_CORE,
    PACKING,
    SCHEDULE,
    FakeKnob,
    best_settings,
    seconds_of,
)

THREE_LAYOUTS = FakeKnob(
    name="layout", side=Role.TRAINER, factors={"padded": 1.0, "sorted": 0.7, "packed": 0.45, "ragged": 1.3}
)
"""The best value stands in the middle of the list."""

CONCURRENCY = FakeKnob(name="concurrency", side=Role.ROLLOUT, factors={None: 1.0, 64: 0.8, 16: 1.5})

BFLOAT = FakeKnob(name="rollout_dtype", side=Role.ROLLOUT, factors={"fp32": 1.0, "bf16": 0.7}, effect=Effect.PRECISION)
"""An honest change of precision: it owes a reward test, and passes it."""

WORSE = (
    FakeKnob(name="layout", side=Role.TRAINER, factors={"packed": 1.0, "padded": 2.0}),
    FakeKnob(name="compact_finished", side=Role.ROLLOUT, factors={True: 1.0, False: 1.6}),
)
"""The baseline is the best there is."""

BELIEVED_WRONGLY = replace(COMPACTION, believed={False: 1.0, True: 0.85})
"""Better than its forecast."""

ASYNC = LimitsSpec(max_staleness=1, allow_corrections=True)


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(
    "knobs",
    [
        (PACKING, COMPACTION),
        (THREE_LAYOUTS, CONCURRENCY, COMPACTION),
        (PACKING, BFLOAT),
        (PACKING, BELIEVED_WRONGLY),
    ],
    ids=["two knobs", "three knobs of many values", "precision", "a wrong belief"],
)
def test_the_known_optimum_is_found_and_the_journal_can_be_verified(
    knobs: tuple[FakeKnob, ...], seed: int, tmp_path: Path
) -> None:
    ran = run_session(tmp_path, knobs, seed=seed)
    best = best_settings(knobs, {})
    assert ran.decision.outcome is Outcome.ADOPT
    assert ran.decision.settings == best
    baseline: dict[str, KnobValue] = {knob.name: next(iter(knob.factors)) for knob in knobs}
    truth = seconds_of(knobs, baseline) / seconds_of(knobs, best)
    assert ran.decision.speedup is not None
    assert ran.decision.speedup.value == pytest.approx(truth, rel=0.02)
    assert ran.problems() == []


def test_a_job_that_counts_device_seconds_gives_a_core_back_and_one_that_counts_time_keeps_it(tmp_path: Path) -> None:
    knobs = (PACKING, ONE_CORE)
    by_objective = {
        objective: run_session(tmp_path / objective, knobs, job=job_of(objective=objective)) for objective in Objective
    }
    in_time, in_devices = (by_objective[o].decision for o in Objective)
    assert in_time.settings == {"layout": "packed", "threads": 2}
    assert in_devices.settings == {"layout": "packed", "threads": 1}
    baseline: dict[str, KnobValue] = {"layout": "padded", "threads": 2}
    truth = seconds_of(knobs, baseline) * 2 / seconds_of(knobs, in_devices.settings)
    assert in_devices.speedup is not None
    assert in_devices.speedup.value == pytest.approx(truth, rel=0.02)
    assert by_objective[Objective.DEVICE_SECONDS_PER_STEP].problems() == []
    # a step may be longer on one core before it costs as many core-seconds as the baseline's
    (step_wire,) = (wire for wire in in_devices.tripwires if wire.metric == "step_time_s")
    assert step_wire.bound == pytest.approx(2 * seconds_of(knobs, baseline), rel=0.02)


@pytest.mark.parametrize("seed", [1, 2])
def test_overlap_is_found_where_the_owner_allows_staleness_and_corrections(seed: int, tmp_path: Path) -> None:
    knobs = (PACKING, COMPACTION, SCHEDULE, CORRECTION)
    ran = run_session(tmp_path, knobs, seed=seed, job=job_of(limits=ASYNC))
    # rollout 0.6 x 0.6 = 0.36 s hides training 0.4 x 0.5 = 0.2 s: 1.0 / 0.36 = 2.8
    assert ran.decision.settings["schedule"] == "one_step_off"
    assert ran.decision.settings["correction"] == "tis"
    assert ran.decision.speedup is not None
    assert ran.decision.speedup.value == pytest.approx(2.78, rel=0.03)
    (tested,) = ran.state.reward_tests
    # 40 steps of the candidate take as long as 0.36 x 40 = 14 of the baseline's
    assert tested.equal_time_step is not None
    assert 12 <= tested.equal_time_step <= 17
    rate = next(verdict for verdict in tested.verdicts if verdict.guard == "reward_rate")
    assert rate.judgement is Judgement.PASS
    assert max(tested.baseline_equal_S) < min(tested.baseline_S)
    assert ran.problems() == []


def test_a_limit_is_kept_and_its_price_is_printed(tmp_path: Path) -> None:
    knobs = (PACKING, COMPACTION, SCHEDULE, CORRECTION)
    ran = run_session(tmp_path, knobs, job=job_of(limits=LimitsSpec(allow_corrections=True)))
    assert ran.decision.settings["schedule"] == "sync"
    proposed = ran.state.proposed
    assert proposed is not None
    assert any("limits.max_staleness is 0" in reason for reason in proposed.refusals)
    price = next(price for price in proposed.prices if price.limit == "max_staleness")
    # forecast with overlap 0.36 s against 0.56 s without
    assert price.gain.value == pytest.approx(0.56 / 0.376, rel=0.05)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_change_where_the_baseline_is_already_best(seed: int, tmp_path: Path) -> None:
    ran = run_session(tmp_path, WORSE, seed=seed)
    assert ran.decision.outcome is Outcome.NO_CHANGE
    assert ran.decision.settings == {"layout": "packed", "compact_finished": True}
    assert ran.decision.reasons
    assert ran.trials == []
    assert ran.problems() == []


def test_no_change_where_every_knob_is_pinned(tmp_path: Path) -> None:
    job = job_of(pin={"layout": "padded", "compact_finished": True})
    ran = run_session(tmp_path, (PACKING, COMPACTION), job=job)
    assert ran.decision.outcome is Outcome.NO_CHANGE
    assert ran.decision.settings == {"layout": "padded", "compact_finished": True}
    assert ran.state.proposed is not None
    assert ran.state.proposed.num_candidates == 0
    assert ran.problems() == []


def test_a_pin_holds_for_baseline_and_candidates_alike(tmp_path: Path) -> None:
    ran = run_session(tmp_path, (PACKING, COMPACTION), job=job_of(pin={"layout": "padded"}))
    assert ran.decision.settings == {"layout": "padded", "compact_finished": True}
    assert all("layout" not in moves for moves in ran.moves_tried())


def test_the_gain_comes_from_steps_that_chose_nothing(tmp_path: Path) -> None:
    ran = run_session(tmp_path, (PACKING, COMPACTION))
    confirmed = ran.state.confirmed
    assert confirmed is not None
    assert ran.decision.speedup == confirmed.speedup
    seen = {step.step_time_s for event in ran.trials for arm in event.trial.arms for step in arm.observations}
    assert not seen & {step.step_time_s for arm in confirmed.arms for step in arm.observations}


def test_what_tuning_pays_back_is_the_whole_session_and_the_cost_that_is_shown(tmp_path: Path) -> None:
    ran = run_session(tmp_path, (PACKING, COMPACTION))
    decision, baseline, ended = ran.decision, ran.state.baseline, ran.state.session_ended
    assert baseline is not None
    assert ended is not None
    assert decision.speedup is not None
    assert 0 < decision.cost_wall_s <= ended.cost_wall_s
    assert decision.cost_device_s == pytest.approx(decision.cost_wall_s * job_of().devices.num_cores, rel=0.05)
    saved_s = baseline.step_time.value * (1 - 1 / decision.speedup.value)
    assert decision.break_even_step == math.ceil(decision.cost_wall_s / saved_s)
    events = [entry.body for entry in read_journal(ran.path / "journal.jsonl")]
    wall, device = total_cost(view_session(events))
    assert (wall.value, device.value) == (decision.cost_wall_s, decision.cost_device_s)


def test_the_settings_handed_back_are_written_in_the_framework_s_own_words(tmp_path: Path) -> None:
    ran = run_session(tmp_path, (PACKING, COMPACTION))
    assert (ran.path / "tuned.toml").read_text() == "compact_finished = True\nlayout = 'packed'\n"
