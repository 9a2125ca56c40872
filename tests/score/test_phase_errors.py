import pytest

from steptune.score.phase_errors import TrialPhases, misses_text, phase_misses, summary_text

# bf16 rollout of experts: decode took 0.43 s where 0.37 were forecast, and the step 0.53 s
TRIAL = TrialPhases(
    incumbent_s={"rollout:rollout": 0.29, "trainer:train": 0.15},
    measured_s={"rollout:rollout": 0.43, "rollout:weight_sync": 0.06, "trainer:train": 0.15},
    forecast_s={"rollout:rollout": 0.37, "trainer:train": 0.151, "controller:unattributed": 0.01},
    step_s=0.53,
)


def test_the_largest_miss_comes_first_and_a_phase_that_nobody_forecast_counts() -> None:
    misses = phase_misses(TRIAL)
    assert [miss.phase for miss in misses[:2]] == ["rollout:rollout", "rollout:weight_sync"]
    assert misses[0].miss_frac == pytest.approx((0.37 - 0.43) / 0.53)
    assert misses[1].forecast_s == 0.0
    assert {miss.phase for miss in misses} == {*TRIAL.measured_s, *TRIAL.forecast_s}


def test_small_misses_are_left_out_of_the_text_and_kept_in_the_summary() -> None:
    misses = phase_misses(TRIAL)
    lines = misses_text({"job-0/2": misses})
    assert lines[0] == "job-0/2"
    assert "measured  0.4300 s  forecast  0.3700 s  -11.3% of the step" in lines[1]
    assert not any("trainer:train" in line for line in lines)
    (row,) = [line for line in summary_text(misses) if "trainer:train" in line]
    assert row.split() == ["trainer:train", "1", "0.2%", "+0.2%", "+0.2%"]
