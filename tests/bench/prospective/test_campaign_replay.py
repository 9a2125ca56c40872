"""A campaign forecast again: only what was known before each trial, and only the forecasts change."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from test_campaign import JOB, FakeHalf, Seen, campaign

from prospective.backend import PairTimes, Settled, Told
from prospective.campaign_journal import ForecastMade
from prospective.campaign_score import order_problems, score_campaign
from prospective.job import Job, Moves
from prospective.phase_table import phase_text
from prospective.replay import replayed, side_by_side
from steptune.core.errors import StoreError, TrialError


class Better(FakeHalf):
    """Knows the truth of `a` at once, and refuses `c`."""

    def forecast(self, told: Job, profile: Seen, settled: Sequence[Settled], moves: Moves) -> Told:
        super().forecast(told, profile, settled, moves)
        if moves["knob"] == "c":
            raise TrialError("no price")
        ratio = 0.5 if moves["knob"] == "a" else 0.9
        phases = {"rollout:rollout": ratio, "trainer:train": 0.2}
        return Told(ratio=ratio, low=0.45, high=0.95, num_free_parameters=1, phases_frac=phases)

    def pair(self, job: Job, moves: Moves) -> PairTimes:
        phases = {"rollout:rollout": 0.4, "trainer:train": 0.2}
        return super().pair(job, moves).model_copy(update={"incumbent_phases_s": phases, "candidate_phases_s": phases})


def test_every_forecast_is_made_again_from_the_trials_that_it_had_learnt_from(tmp_path: Path) -> None:
    made = campaign(tmp_path, FakeHalf())
    made.run([JOB])
    half = Better()
    again = replayed(made.journal.events, [JOB], tmp_path, {"embedded": lambda: half})
    assert half.calls == [
        f"forecast {knob} after {n}" for knob, n in [("a", 0), ("b", 0), ("c", 0), ("b", 1), ("c", 2)]
    ]
    assert half.told_of == [None] * 5
    assert order_problems(again) == []
    told = [e for e in again if isinstance(e, ForecastMade)]
    assert [e.told and e.told.ratio for e in told] == [0.5, 0.9, None, 0.9, None]
    assert "no price" in told[2].refused
    others = [e for e in again if not isinstance(e, ForecastMade)]
    assert others == [e for e in made.journal.events if not isinstance(e, ForecastMade) and e.kind != "began"]


def test_a_job_without_its_profile_is_left_out(tmp_path: Path) -> None:
    made = campaign(tmp_path, FakeHalf())
    made.run([JOB])
    (tmp_path / "profile-fake-00.json").unlink()
    assert replayed(made.journal.events, [JOB], tmp_path, {}) == []


def test_a_profile_that_was_measured_another_way_is_named(tmp_path: Path) -> None:
    made = campaign(tmp_path, FakeHalf())
    made.run([JOB])
    (tmp_path / "profile-fake-00.json").write_text('{"old": 1}', encoding="utf-8")
    with pytest.raises(StoreError, match=r"profile-fake-00\.json is no profile .* hint: name the jobs"):
        replayed(made.journal.events, [JOB], tmp_path, {"embedded": FakeHalf})


def test_recorded_and_todays_figures_stand_beside_each_other(tmp_path: Path) -> None:
    made = campaign(tmp_path, FakeHalf())
    made.run([JOB])
    again = replayed(made.journal.events, [JOB], tmp_path, {"embedded": Better})
    text = side_by_side(score_campaign(made.journal.events, [JOB]), score_campaign(again, [JOB]))
    rows = [line.split() for line in text.splitlines() if line.startswith("embedded: first forecasts ")]
    assert [row[3] for row in rows] == ["recorded", "today"]


def test_errors_are_told_by_phase_where_forecasts_name_phases(tmp_path: Path) -> None:
    made = campaign(tmp_path, Better())
    made.run([JOB])
    text = phase_text(made.journal.events, [JOB])
    # b: 0.9 forecast, 0.8 measured; its step is 1.13 s (geometric mean of 0.8 and 1.6), its rollout 0.9 x 1.41 s
    assert "fake-00/1 first: forecast 0.900 (0.450 to 0.950), measured 0.800, +11.8%" in text
    assert "measured  0.4000 s  forecast  1.2728 s" in text
    assert "fake-00/0 first" not in text
