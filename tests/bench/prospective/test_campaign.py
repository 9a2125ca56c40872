"""The campaign over a half that measures nothing: what is written when, what is resumed, what is refused."""

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from prospective.backend import PairTimes, Settled, Told
from prospective.campaign import Campaign
from prospective.campaign_journal import CampaignLine, ForecastMade, Profiled, TrialBegan, TrialDone
from prospective.campaign_score import order_problems, score_campaign
from prospective.job import Disturbance, Job, LengthDraw, Moves
from steptune.core.errors import StoreError, TrialError
from steptune.core.records import Record
from steptune.store.journal import create_journal, open_lines, read_lines

SPEED = {"a": 0.5, "b": 0.8, "c": 1.25}
"""True ratio of each value of the fake's one knob."""

JOB = Job(
    name="fake-00",
    engine="embedded",
    seed=1,
    model="dense",
    prompts_per_step=4,
    group_size=4,
    lengths=LengthDraw(median=8, sigma=0.5, longest=32),
    baseline={"knob": "base"},
    disturbance=Disturbance(kind="straggler", seconds=0.1),
    candidates=({"knob": "a"}, {"knob": "b"}, {"knob": "c"}),
)


class Seen(Record):
    step_s: float = 1.0


class FakeHalf:
    """Forecasts 0.6 first and the truth later; fails where it is told to."""

    profile_type = Seen

    def __init__(self, failing: str = "", stop_after: int = 99) -> None:
        self.failing, self.stop_after = failing, stop_after
        self.calls: list[str] = []
        self.told_of: list[Disturbance | None] = []

    def profile(self, job: Job) -> Seen:
        self.calls.append("profile")
        return Seen()

    def forecast(self, told: Job, profile: Seen, settled: Sequence[Settled], moves: Moves) -> Told:
        self.told_of.append(told.disturbance)
        self.calls.append(f"forecast {moves['knob']} after {len(settled)}")
        ratio = SPEED[str(moves["knob"])] if settled else 0.6
        return Told(ratio=ratio, low=0.9 * ratio, high=1.1 * ratio, num_free_parameters=len(settled))

    def pair(self, job: Job, moves: Moves) -> PairTimes:
        if sum(call.startswith("pair") for call in self.calls) >= self.stop_after:
            raise KeyboardInterrupt
        self.calls.append(f"pair {moves['knob']}")
        if moves["knob"] == self.failing:
            raise TrialError("it died")
        ratio = SPEED[str(moves["knob"])]
        return PairTimes(incumbent_s=((1.0, 1.0), (2.0, 2.0)), candidate_s=((ratio, ratio), (2 * ratio, 2 * ratio)))

    def same(self, job: Job) -> PairTimes:
        self.calls.append("same")
        return PairTimes(incumbent_s=((1.0,),), candidate_s=((1.02,),))


def campaign(folder: Path, half: FakeHalf, budget_s: float = 1e9) -> Campaign:
    path = folder / "journal.jsonl"
    if not path.exists():
        create_journal(path)
    journal = open_lines(path, lambda: datetime.now(UTC), CampaignLine)
    return Campaign(
        journal=journal,
        folder=folder,
        backends={"embedded": lambda: half},
        budget_s=budget_s,
        say=lambda text: None,
    )


def test_first_forecasts_of_all_candidates_come_before_any_trial_and_one_more_before_each_later_trial(
    tmp_path: Path,
) -> None:
    half = FakeHalf()
    made = campaign(tmp_path, half)
    assert made.run([JOB])
    assert half.calls == [
        "profile",
        "forecast a after 0",
        "forecast b after 0",
        "forecast c after 0",
        "same",
        "pair a",
        "forecast b after 1",
        "pair b",
        "forecast c after 2",
        "pair c",
    ]
    assert half.told_of == [None] * 5
    assert order_problems(made.journal.events) == []


def test_a_killed_campaign_goes_on_with_the_forecasts_that_stand(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        campaign(tmp_path, FakeHalf(stop_after=1)).run([JOB])
    half = FakeHalf()
    again = campaign(tmp_path, half)
    assert again.run([JOB])
    # b's trial had begun and was killed: it is run again, but not forecast again
    assert half.calls == ["pair b", "forecast c after 2", "pair c"]
    assert [e.number for e in again.journal.events if isinstance(e, TrialBegan)] == [0, 1, 1, 2]
    assert order_problems(again.journal.events) == []


def test_a_profile_that_was_changed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        campaign(tmp_path, FakeHalf(stop_after=1)).run([JOB])
    (tmp_path / "profile-fake-00.json").write_text('{"step_s":2.0}', encoding="utf-8")
    with pytest.raises(StoreError, match="not the profile that the journal names"):
        campaign(tmp_path, FakeHalf()).run([JOB])


def test_nothing_is_begun_when_the_budget_is_spent(tmp_path: Path) -> None:
    half = FakeHalf()
    assert not campaign(tmp_path, half, budget_s=0.0).run([JOB])
    assert half.calls == []


def test_a_failed_candidate_is_an_infinite_error_that_later_forecasts_do_not_learn_from(tmp_path: Path) -> None:
    made = campaign(tmp_path, FakeHalf(failing="a"))
    made.run([JOB])
    score = score_campaign(made.journal.events, [JOB])
    assert (score.num_trials, score.num_unfinished) == (3, 1)
    first = next(line for line in score.lines if (line.what, line.arm) == ("first forecasts", "forecast"))
    # errors: infinite, |ln(0.6 / 0.8)|, |ln(0.6 / 1.25)| = 0.734, the median
    assert first.median_frac == pytest.approx(1.25 / 0.6 - 1)
    assert first.p90_frac == math.inf
    assert first.num_unfinished == 1


def test_the_score_stands_beside_no_change_the_best_past_trial_and_the_repeats(tmp_path: Path) -> None:
    made = campaign(tmp_path, FakeHalf())
    made.run([JOB])
    score = score_campaign(made.journal.events, [JOB])
    lines = {(line.what, line.arm): line for line in score.lines}
    assert lines["later forecasts", "forecast"].median_frac == pytest.approx(0, abs=1e-12)
    assert lines["later forecasts", "forecast"].inside_frac == 1.0
    # later forecasts are of b (0.8) and c (1.25): no change is off by 25 % both times
    assert lines["later forecasts", "no change"].median_frac == pytest.approx(0.25)
    # the best past trial was a with 0.5: off by 1.6 for b, and by 2.5 for c
    assert lines["later forecasts", "best past trial"].median_frac == pytest.approx(0.6)
    assert score.aa_median_frac == pytest.approx(0.02)
    assert score.far_frac == 1.0
    wanted = {row.what: row.wanted for row in score.against}
    assert wanted["median error, first forecasts"] == "at most 8.0 %".replace(" %", "%")


def test_a_forecast_after_its_trial_is_found(tmp_path: Path) -> None:
    made = campaign(tmp_path, FakeHalf())
    made.run([JOB])
    late = ForecastMade(job="fake-00", number=1, is_first=False, told=None, refused="late", learnt_from=(0,))
    made.journal.append(late)
    (problem,) = order_problems(made.journal.events)
    assert "fake-00/1" in problem


def test_what_is_on_disk_is_what_happened(tmp_path: Path) -> None:
    made = campaign(tmp_path, FakeHalf(failing="b"))
    made.run([JOB])
    read = [entry.body for entry in read_lines(tmp_path / "journal.jsonl", CampaignLine)]
    assert read == list(made.journal.events)
    assert isinstance(read[0], Profiled)
    failed = next(e for e in read if isinstance(e, TrialDone) and e.pair is None)
    assert failed.cause == "TrialError: it died"
