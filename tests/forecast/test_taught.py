"""What trials teach of parts: a trial that moved rollout knobs says nothing about training."""

import math

import pytest
from forecast_cases import BASELINE, change, decode, learnt, plan, prefill, profile, train

from steptune.core.change import Change
from steptune.core.event import LearntFrom, LearntPart
from steptune.core.work import PlannedWork
from steptune.forecast.model import fit
from steptune.forecast.parts import priced_by
from steptune.forecast.taught import LEAST_PART_FRAC, Touched, teach, touched

NOISE = 0.01
MODEL = fit(profile(), BASELINE)
SLOWER_DECODE = plan(prefill(), decode(x=150), train())
SLOWER_TRAIN = plan(prefill(), decode(), train(count=6))


def touches(planned: PlannedWork, moved: Change) -> Touched:
    return touched(moved, (priced_by(BASELINE), priced_by(planned)), MODEL.predict(planned).parts, MODEL.baseline.parts)


def trial(
    part: str, raw: float, measured: float, *, laid_out: float = 1.2, step: float = 1.2, **moved: object
) -> LearntFrom:
    seen = LearntPart.model_validate({"part": part, "knobs": tuple(moved), "raw_frac": raw, "measured_frac": measured})
    return learnt(1.1, step, **moved).model_copy(update={"parts": (seen,), "laid_out_ratio": laid_out})


def test_a_part_is_touched_by_knobs_that_may_choose_its_curves() -> None:
    moved = change(rollout_threads=1, recompute=True, concurrency=8)
    told = touches(SLOWER_DECODE, moved)
    # recompute chooses curves of training alone; nobody knows what concurrency does
    assert set(told.by_part) == {"rollout"}
    assert dict(told.by_part["rollout"]) == {"rollout_threads": 1, "concurrency": 8}


def test_a_part_that_no_eligible_knob_moved_is_everybodys() -> None:
    assert dict(touches(SLOWER_DECODE, change(recompute=True)).by_part["rollout"]) == {"recompute": True}


def test_a_trial_of_the_rollout_corrects_no_training() -> None:
    taught = teach([trial("rollout", 0.4, 0.6, rollout_dtype="bf16")], NOISE)
    same = taught.factors(touches(SLOWER_DECODE, change(rollout_dtype="bf16")))
    assert 1.2 < same["rollout"] < 1.5
    assert taught.factors(touches(SLOWER_TRAIN, change(recompute=True))) == {"train": 1.0}
    # another knob of the same part shares nothing with it
    assert taught.factors(touches(SLOWER_DECODE, change(concurrency=8))) == {"rollout": 1.0}


def test_what_measured_parts_explain_is_no_error_of_the_layout() -> None:
    explained = teach([trial("rollout", 0.4, 0.6, laid_out=1.2, step=1.2, rollout_dtype="bf16")], NOISE)
    assert explained.step_factor(touches(SLOWER_DECODE, change(rollout_dtype="bf16"))) == 1.0
    slower = teach([trial("rollout", 0.4, 0.4, laid_out=1.1, step=1.3, schedule="async")], NOISE)
    assert 1.0 < slower.step_factor(touches(SLOWER_DECODE, change(schedule="async"))) < 1.3 / 1.1
    assert slower.step_factor(touches(SLOWER_DECODE, change(concurrency=8))) == 1.0


def test_a_trial_without_parts_teaches_about_whole_steps() -> None:
    taught = teach([learnt(0.8, 0.9, a=1)], NOISE)
    told = touches(SLOWER_DECODE, change(a=1))
    assert 1.0 < taught.step_factor(told) < 0.9 / 0.8
    assert taught.factors(told) == {"rollout": 1.0}
    assert taught.unsettled(told) < 0.2
    assert taught.unsettled(touches(SLOWER_DECODE, change(b=1))) == pytest.approx(1.0)


def test_a_part_that_is_mostly_clock_noise_teaches_nothing() -> None:
    tiny = LEAST_PART_FRAC / 4
    taught = teach([trial("handover", tiny, 3 * tiny, handover="file")], NOISE)
    assert taught.parts["handover"].trials == ()


def test_trials_narrow_what_they_touched() -> None:
    history = [trial("rollout", 0.4, 0.41, rollout_dtype="bf16") for _ in range(4)]
    before, after = teach((), NOISE), teach(history, NOISE)
    keys = (("rollout_dtype", "bf16"),)
    assert after.part_variance("rollout", keys) < before.part_variance("rollout", keys) / 4
    assert math.isclose(after.part_variance("train", keys), before.part_variance("train", keys))
