"""Constants fitted in retrospect: of the other jobs alone, and none where too few jobs could teach them."""

import math

import pytest

from prospective.left_out import left_out_lines
from steptune.core.change import Change
from steptune.core.estimate import Estimate, Source
from steptune.core.knob import Effect, Restart
from steptune.score.forecasts import Fate, ForecastScore
from steptune.score.prospective import Judged


def judged(measured: float, *, forecast: float = 1.0, half_width: float = 0.05, is_first: bool = True) -> Judged:
    """Return one forecast with its trial."""
    low, high = forecast * math.exp(-half_width), forecast * math.exp(half_width)
    inside = low <= measured <= high
    score = ForecastScore(
        target="job/0",
        change=Change(moves=(), effect=Effect.NONE, restart=Restart.RELAUNCH),
        is_first=is_first,
        fate=Fate.INSIDE if inside else Fate.OUTSIDE,
        forecast=Estimate(value=forecast, low=low, high=high, unit="x", source=Source.FORECAST),
        measured=Estimate(value=measured, low=None, high=None, unit="x", source=Source.MEASURED),
        why="",
    )
    return Judged(score=score, best_past_ratio=1.0)


def test_a_lean_that_all_jobs_share_is_taken_off() -> None:
    (line,) = left_out_lines({"trl": {f"job-{n}": (judged(1.2), judged(1.2)) for n in range(4)}})
    assert line.lean == pytest.approx(1.2)
    assert line.median_frac == pytest.approx(0.0, abs=1e-9)
    assert line.inside_frac == 1.0


def test_a_job_of_its_own_kind_learns_nothing_from_itself() -> None:
    calm = {f"job-{n}": (judged(1.0),) for n in range(4)}
    (line,) = left_out_lines({"trl": {**calm, "odd": (judged(1.5),)}})
    assert line.inside_frac == pytest.approx(4 / 5)  # the others' width does not hold it
    assert line.widening == pytest.approx(0.0)


def test_widths_grow_to_what_the_other_jobs_needed() -> None:
    jobs = {f"job-{n}": (judged(math.exp(0.1)), judged(math.exp(-0.1)), judged(1.0)) for n in range(5)}
    (line,) = left_out_lines({"trl": jobs})
    assert line.widening == pytest.approx(2.0)
    assert line.half_width_frac == pytest.approx(math.expm1(0.1))
    assert line.inside_frac == 1.0


def test_first_and_later_forecasts_have_constants_of_their_own() -> None:
    jobs = {f"job-{n}": (judged(1.2), judged(1.0, is_first=False)) for n in range(3)}
    first, later = left_out_lines({"trl": jobs})
    assert (first.what, later.what) == ("trl, first forecasts", "trl, later forecasts")
    assert first.lean == pytest.approx(1.2)
    assert later.lean == pytest.approx(1.0)


def test_two_jobs_teach_no_constant() -> None:
    assert left_out_lines({"trl": {"a": (judged(1.1),), "b": (judged(1.2),)}}) == ()
