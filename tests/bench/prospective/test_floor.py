"""What the noise of an engine is said to be."""

import math

import pytest

from prospective.backend import PairTimes
from prospective.campaign_journal import SameDone, TrialDone
from prospective.floor import floor_lines, floors, log_se
from prospective.job import Job, LengthDraw

JOBS = tuple(
    Job(
        name=f"trl-{i:02}", engine="trl", seed=1, model="dense", prompts_per_step=4, group_size=4,
        lengths=LengthDraw(median=8, sigma=0.5, longest=32), baseline={}, disturbance=None, candidates=(),
    )
    for i in range(3)
)  # fmt: skip


def pair(*candidate_s: float) -> PairTimes:
    return PairTimes(incumbent_s=((1.0,),) * len(candidate_s), candidate_s=tuple((s,) for s in candidate_s))


def test_repeats_and_trials_are_told_apart_and_failed_ones_left_out() -> None:
    events = [
        *(SameDone(job=job.name, pair=pair(r), wall_s=1.0) for job, r in zip(JOBS, (0.9, 1.0, 1.05), strict=True)),
        TrialDone(job=JOBS[0].name, number=0, pair=pair(0.5, 0.5 * math.exp(0.2)), wall_s=1.0),
        TrialDone(job=JOBS[0].name, number=1, pair=None, cause="crash", wall_s=1.0),
    ]
    (floor,) = floors(events, JOBS)
    assert floor.num_repeats == 3
    assert floor.median_frac == pytest.approx(0.05)
    assert floor.trial_log_se == pytest.approx(0.1)  # half of the difference of two
    assert "A/A median 5.0 %" in floor_lines((floor,))[0].replace("%", " %")


def test_one_block_says_nothing_of_its_error() -> None:
    assert log_se(pair(0.7)) is None
