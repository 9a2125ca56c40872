import pytest
from forecast_cases import BASELINE, STEP_S, change, decode, plan, prefill, profile, train

from steptune.core.event import LearntFrom
from steptune.core.job import Objective
from steptune.core.phase import Role
from steptune.core.work import PlannedWork
from steptune.forecast.curve import ForecastError
from steptune.forecast.learn_trial import ArmPhases, learnt_from, learnt_from_half
from steptune.forecast.taught import teach

FASTER = plan(prefill(), decode(x=51), train())
ROLLOUT, TRAIN = (Role.ROLLOUT, "rollout"), (Role.TRAINER, "train")
# decode 40 x 6 ms instead of 0.44 s: rollout 0.4 of 1.66 s instead of 0.6
FORECAST_FRAC = 0.4 / STEP_S


def learn(
    ratio: float, candidate: ArmPhases | None, baseline: ArmPhases | None = None, planned: PlannedWork = FASTER
) -> LearntFrom:
    return learnt_from(
        profile=profile(),
        planned_baseline=BASELINE,
        planned=planned,
        change=change(concurrency=8),
        objective=Objective.STEP_TIME,
        measured_ratio=ratio,
        candidate=candidate,
        baseline=baseline,
    )


def test_without_phases_a_trial_teaches_its_step() -> None:
    told = learn(0.9, None)
    assert (told.parts, told.laid_out_ratio) == ((), None)
    assert told.raw_forecast_ratio == pytest.approx(1.46 / STEP_S)


def test_a_part_is_measured_against_the_incumbents_own() -> None:
    # a slow hour: everything takes 1.5 times as long, and the rollout 0.5 of its 0.9 s
    candidate = ArmPhases(step_s=2.3, busy_s={ROLLOUT: 0.5, TRAIN: 1.5})
    incumbent = ArmPhases(step_s=2.49, busy_s={ROLLOUT: 0.9, TRAIN: 1.5})
    (part,) = learn(2.3 / 2.49, candidate, incumbent).parts
    assert part.part == "rollout"
    assert part.knobs == ("concurrency",)
    assert part.raw_frac == pytest.approx(FORECAST_FRAC)
    assert part.measured_frac == pytest.approx(0.6 / STEP_S * 0.5 / 0.9)


def test_beside_another_incumbent_a_part_is_measured_by_its_share_of_the_step() -> None:
    (part,) = learn(0.9, ArmPhases(step_s=2.0, busy_s={ROLLOUT: 0.5})).parts
    assert part.measured_frac == pytest.approx(0.25 * 0.9)


def test_the_laid_out_step_holds_the_measured_parts() -> None:
    told = learn(0.95, ArmPhases(step_s=STEP_S, busy_s={ROLLOUT: 0.6}), ArmPhases(step_s=STEP_S, busy_s={ROLLOUT: 0.6}))
    assert told.laid_out_ratio == pytest.approx(1.0)


def test_a_change_without_a_price_teaches_nothing() -> None:
    with pytest.raises(ForecastError):
        learn(0.9, None, planned=plan(train(recompute=True)))


def half(side: Role, side_ratio: float) -> LearntFrom:
    return learnt_from_half(
        profile=profile(),
        planned_baseline=BASELINE,
        planned=FASTER,
        change=change(concurrency=8),
        objective=Objective.STEP_TIME,
        side=side,
        knobs=("concurrency",),
        side_ratio=side_ratio,
    )


def test_a_half_teaches_its_part_and_no_step() -> None:
    told = half(Role.ROLLOUT, 0.5)  # forecast 0.4 of 0.6 s, measured 0.3
    (part,) = told.parts
    assert (part.part, told.measured_ratio) == ("rollout", None)
    assert part.raw_frac == pytest.approx(FORECAST_FRAC)
    assert part.measured_frac == pytest.approx(0.3 / STEP_S)
    assert told.laid_out_ratio == pytest.approx(1.36 / STEP_S)
    taught = teach([told], noise=0.01)
    assert taught.trials == (told.change.signature,)
    assert taught.layout.trials == taught.whole.trials == ()
    keys = (("concurrency", 8),)
    assert taught.parts["rollout"].correction_of(keys) < 0 == taught.parts["train"].correction_of(keys)
