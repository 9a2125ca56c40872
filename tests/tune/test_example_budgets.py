"""An example whose budget ends before anything is confirmed shows nothing; reserves grow, and few run every example."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from steptune.profile.measure import NATURAL_STEPS
from steptune.store.job_file import load_job
from steptune.tune.reserve import STEPS_AFTER_SEARCH, STEPS_OF_A_TRIAL, reserve

EXAMPLES = Path(__file__).parents[2] / "examples"

STEP_S = {"math-dense": 1.42, "math-moe": 1.25, "math-hybrid": 1.45}
"""Seconds of a baseline step on two quiet cores (2026-11-30): measured for the dense example; the others' steps took
0.6 to 0.9 times as long beside it on a loaded machine, and are given more here."""

PROBE_S = 80.0
"""Seconds of probe, evaluation and shuffled replays: 65 of the dense example's profile of 127."""

NUM_TRIALS = 3

LONGEST_S = 12 * 60.0
"""What an example may take without the SFT start, which is trained once."""


def kept_s(name: str, step_s: float, ratio: float) -> float:
    """Return what a session keeps for waterfall, reward test and confirmation, by its own rule."""
    baseline = SimpleNamespace(step_time=SimpleNamespace(value=step_s))
    context: Any = SimpleNamespace(job=load_job(EXAMPLES / f"{name}.toml"), baseline=baseline)
    return reserve(context, ratio, STEPS_AFTER_SEARCH).whole_s


@pytest.mark.parametrize("name", STEP_S)
def test_an_examples_budget_pays_for_three_trials_and_all_that_follows(name: str) -> None:
    budget, step_s = load_job(EXAMPLES / f"{name}.toml").budget, STEP_S[name]
    profile_s = PROBE_S + (NATURAL_STEPS + STEPS_OF_A_TRIAL) * step_s
    before_last_s = profile_s + (NUM_TRIALS - 1) * STEPS_OF_A_TRIAL * step_s
    assert before_last_s + kept_s(name, step_s, ratio=0.5) <= budget.wall_time_s <= LONGEST_S
    assert budget.device_time_s >= 2 * budget.wall_time_s
    assert budget.max_trials >= NUM_TRIALS
