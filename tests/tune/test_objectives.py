"""Step time and device-seconds side by side: fewer devices at no slower step, and a table of both."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
from fake_sessions import job_of, run_session

from steptune.core.change import Change, Move
from steptune.core.decision import Outcome
from steptune.core.job import Objective
from steptune.core.knob import Effect, Restart
from steptune.forecast.interval import RatioInterval
from steptune.report.build import build_report
from steptune.report.text import render_text
from steptune.testing.fake_space import COMPACTION, ONE_CORE, PACKING
from steptune.tune.objectives import best_by_objective, no_slower_chance

DEVICES, TIME = Objective.DEVICE_SECONDS_PER_STEP, Objective.STEP_TIME


def step(mid: float, spread: float = 1.1) -> RatioInterval:
    return RatioInterval(low=mid / spread, mid=mid, high=mid * spread)


def named(knob: str) -> Change:
    return Change(moves=(Move(knob=knob, old=0, new=1),), effect=Effect.NONE, restart=Restart.HOT)


def test_a_change_that_gives_cores_back_for_a_longer_step_is_not_even_tried(tmp_path: Path) -> None:
    # 0.6 + 0.4 x 1.4 = 1.16 s on one core: 0.58 of the core-seconds, and a longer step
    ran = run_session(tmp_path, (ONE_CORE,), job=job_of(objective=DEVICES))
    assert ran.trials == []
    assert ran.decision.outcome is Outcome.NO_CHANGE


def test_a_step_that_turns_out_longer_is_refused_however_many_cores_it_gives_back(tmp_path: Path) -> None:
    flattered = replace(ONE_CORE, believed={2: 1.0, 1: 0.9})
    ran = run_session(tmp_path, (flattered,), job=job_of(objective=DEVICES))
    (event,) = ran.trials
    assert event.outcome is Outcome.REJECT
    assert event.trial.ratio is not None
    assert event.trial.ratio.value == pytest.approx(0.58, rel=0.02)
    assert event.trial.step_ratio is not None
    assert event.trial.step_ratio.value == pytest.approx(1.16, rel=0.02)
    assert event.reasons[0].startswith("fewer devices, but a longer step")
    assert ran.decision.settings == {"threads": 2}
    assert ran.problems() == []


@pytest.mark.parametrize("objective", Objective)
def test_a_confirmation_and_the_first_screen_hold_both_objectives(objective: Objective, tmp_path: Path) -> None:
    ran = run_session(tmp_path, (PACKING, COMPACTION, ONE_CORE), job=job_of(objective=objective))
    confirmed = ran.state.confirmed
    assert confirmed is not None
    rows = {row.objective: row for row in confirmed.objectives}
    assert set(rows) == set(Objective)
    assert rows[objective].speedup == confirmed.speedup
    cores = ran.decision.settings["threads"]
    assert cores == (1 if objective is DEVICES else 2)
    # the same launches in both: the gains differ by the cores given back
    assert rows[DEVICES].speedup.value == pytest.approx(rows[TIME].speedup.value * 2 / cores)
    assert rows[DEVICES].baseline.value == pytest.approx(2 * rows[TIME].baseline.value)
    text = render_text(build_report(ran.events))
    first_screen = text[: text.index("Configuration handed back")]
    assert "Both objectives" in first_screen
    assert "device-seconds per step" in first_screen
    assert "what the job asks for" in first_screen


def test_what_is_forecast_best_is_told_for_both_objectives_whichever_is_asked(tmp_path: Path) -> None:
    ran = run_session(tmp_path, (PACKING, ONE_CORE), is_advice_only=True)
    assert ran.state.proposed is not None
    by = {each.objective: each for each in ran.state.proposed.best}
    assert {move.knob for move in by[TIME].change.moves} == {"layout"}
    # 0.6 + 0.2 x 1.4 = 0.88 s on one core: no slower, and 0.44 of the core-seconds
    assert {move.knob for move in by[DEVICES].change.moves} == {"layout", "threads"}
    assert by[DEVICES].device_ratio.value == pytest.approx(0.44, rel=0.02)


def test_the_chance_of_a_step_that_is_no_slower_follows_the_interval() -> None:
    assert no_slower_chance(TIME, step(5.0)) == 1.0
    assert no_slower_chance(DEVICES, step(1.0)) == pytest.approx(0.5)
    # the 80 % interval ends at 1: 90 % lie below
    assert no_slower_chance(DEVICES, RatioInterval(low=0.81, mid=0.9, high=1.0)) == pytest.approx(0.9, abs=0.01)
    assert no_slower_chance(DEVICES, RatioInterval(low=0.9, mid=0.9, high=0.9)) == 1.0
    assert no_slower_chance(DEVICES, RatioInterval(low=1.1, mid=1.1, high=1.1)) == 0.0


def test_the_best_for_device_seconds_has_no_slower_step_and_beats_the_baseline() -> None:
    slow, fast, lean = (named("slow"), step(1.2), 0.5), (named("fast"), step(0.5), 2.0), (named("lean"), step(0.9), 0.5)
    best = best_by_objective([slow, fast, lean])
    assert [(each.objective, each.change.moves[0].knob) for each in best] == [(TIME, "fast"), (DEVICES, "lean")]
    assert best[0].device_ratio.value == pytest.approx(1.0)
    assert math.isclose(best[1].device_ratio.value, 0.45)
    assert best_by_objective([slow]) == ()
