import math
from collections import Counter
from pathlib import Path

import pytest

from steptune.core.errors import TrialError
from steptune.core.framework import LaunchSpec
from steptune.core.job import JobSpec
from steptune.core.knob import Settings
from steptune.testing.fake_framework import FakeFramework, FakeSession
from steptune.testing.fake_space import (
    COMPACTION,
    CORRECTION,
    CRASHING,
    HUNGRY,
    LAZY_ANSWERS,
    LEAKY_DTYPE,
    PACKING,
    PLACEBO,
    POISONED,
    SCHEDULE,
    SILENT,
    FakeKnob,
    best_settings,
    seconds_of,
    side_seconds,
)

JOB = JobSpec(name="fake", framework="fake")


def launched(folder: Path, knobs: tuple[FakeKnob, ...], settings: Settings, **more: object) -> FakeSession:
    framework = FakeFramework(knob_table=knobs, **more)  # type: ignore[arg-type]
    return framework.launch(JOB, LaunchSpec(settings=dict(settings), seed=1), folder)


def test_sides_are_products_of_factors_and_the_step_is_their_sum_or_the_longer() -> None:
    knobs = (PACKING, COMPACTION, SCHEDULE, CORRECTION)
    settings = {"layout": "packed", "compact_finished": True, "schedule": "sync", "correction": "none"}
    assert side_seconds(knobs, settings) == pytest.approx((0.36, 0.2))
    assert seconds_of(knobs, settings) == pytest.approx(0.56)
    assert seconds_of(knobs, {**settings, "schedule": "one_step_off"}) == pytest.approx(0.36)


def test_belief_and_truth_differ_only_where_the_knob_says_so() -> None:
    knobs = (PACKING, PLACEBO)
    settings = {"layout": "packed", "placebo": "on"}
    assert side_seconds(knobs, settings) == pytest.approx((0.6, 0.2))
    assert side_seconds(knobs, settings, believed=True) == pytest.approx((0.6, 0.12))


def test_the_best_settings_are_the_fastest_of_the_harmless() -> None:
    knobs = (PACKING, COMPACTION, LEAKY_DTYPE)
    harmless = {"rollout_dtype": "fp32"}
    assert best_settings(knobs, harmless) == {"layout": "packed", "compact_finished": True, "rollout_dtype": "fp32"}
    assert best_settings(knobs, {})["rollout_dtype"] == "int4"


def test_steps_scatter_about_the_truth_and_the_same_launch_scatters_alike(tmp_path: Path) -> None:
    settings = {"layout": "packed", "compact_finished": False}
    first, again = (
        launched(tmp_path / str(i), (PACKING, COMPACTION), settings, noise=0.02).run_steps(200) for i in range(2)
    )
    assert first == again
    times = [step.step_time_s for step in first]
    # 0.6 + 0.2 s; the mean of 200 steps at 2 % noise is known to 0.15 %
    assert sum(times) / len(times) == pytest.approx(0.8, rel=0.006)
    assert len(set(times)) == len(times)


def test_every_step_is_counted(tmp_path: Path) -> None:
    seen: Counter[str] = Counter()
    session = launched(tmp_path, (PACKING,), {"layout": "padded"}, on_step=lambda: seen.update(["step"]))
    session.run_steps(5)
    assert seen["step"] == 5
    assert session.step == 5


def test_traps_do_what_they_say(tmp_path: Path) -> None:
    (leaky,) = launched(tmp_path / "a", (LEAKY_DTYPE,), {"rollout_dtype": "int4"}).run_steps(1)
    (silent,) = launched(tmp_path / "b", (SILENT,), {"monitoring": "none"}).run_steps(1)
    (poisoned,) = launched(tmp_path / "c", (POISONED,), {"fused_norm": True}).run_steps(1)
    assert leaky.mismatch is not None
    assert leaky.mismatch.k3 == 0.5
    assert silent.mismatch is None
    assert poisoned.grad_norm is not None
    assert math.isnan(poisoned.grad_norm)
    with pytest.raises(MemoryError):
        launched(tmp_path / "d", (HUNGRY,), {"recompute": False})
    with pytest.raises(TrialError):
        launched(tmp_path / "e", (CRASHING,), {"graph": True})


def test_a_lazy_kernel_learns_less_than_an_exact_one(tmp_path: Path) -> None:
    ends = {}
    for kernel in ("exact", "sloppy"):
        session = launched(tmp_path / kernel, (LAZY_ANSWERS,), {"rollout_kernel": kernel})
        start = session.evaluate().accuracy
        session.run_steps(60)
        ends[kernel] = session.evaluate().accuracy - start
    # 0.2 x (1 - 0.5^4) = 0.19 against nothing, seeds scatter by 0.004
    assert ends["exact"] == pytest.approx(0.19, abs=0.02)
    assert ends["sloppy"] == pytest.approx(0.0, abs=0.02)


def test_a_run_that_does_not_learn_never_mixes_its_groups(tmp_path: Path) -> None:
    session = launched(tmp_path, (PACKING,), {"layout": "padded"}, learns=False)
    assert session.run_steps(1)[0].mixed_groups_frac == 0.0
    assert session.evaluate().accuracy == 0.45


def test_overlap_reports_its_age_and_waits_only_for_the_longer_side(tmp_path: Path) -> None:
    settings = {"schedule": "one_step_off", "correction": "tis"}
    (step,) = launched(tmp_path, (SCHEDULE, CORRECTION), settings, noise=0.0).run_steps(1)
    assert step.step_time_s == pytest.approx(0.6)
    assert step.lag_max == 1
    assert [stats.lag for stats in step.off_policy] == [1]
    waits = {span.role: span.seconds for span in step.spans if span.kind == "exposed_wait"}
    assert waits == pytest.approx({"rollout": 0.0, "trainer": 0.2})
