import pytest
from fixture_steps import booked, paste_of, points, steps_in

from steptune.core.phase import Role, SpanKind
from steptune.readers.facts import JobFacts
from steptune.readers.openrlhf.profile import to_reading
from steptune.readers.reading import LogReading


def test_only_the_bar_over_an_episode_is_a_step_and_it_gives_no_profile() -> None:
    paste = paste_of("openrlhf_bars.txt")
    assert paste.framework == "openrlhf"
    assert paste.profile is None
    assert points(paste, "step_time") == [(11, 19.5, 6), (12, 19.18, 10)]


def test_shortened_dicts_are_read_as_far_as_they_go() -> None:
    paste = paste_of("openrlhf_dicts.txt")
    assert paste.framework == "openrlhf"
    assert paste.profile is None
    assert points(paste, "completion_mean") == [(1, 40.375, 2), (2, 49.5625, 3)]
    assert points(paste, "timing/ppo_train") == [(1, 5.04, 2), (2, 3.39, 3)]


def reading_of(total: float) -> LogReading:
    parts = (
        "'timing/generation': 60.0, 'timing/make_experience': 10.0, 'timing/ppo_train': 25.0, 'timing/broadcast': 5.0"
    )
    text = f"INFO 09-01 10:00:00 ppo_trainer.py:547] Global step 3: {{{parts}, 'timing/step_total': {total}}}\n"
    reading = to_reading(steps_in("openrlhf", text), JobFacts(version=None, settings={}))
    assert reading is not None
    return reading


def test_a_total_that_is_the_sum_of_its_parts_is_the_synchronous_trainer() -> None:
    profile = reading_of(100.0).profile
    assert profile.schedule == "sync"
    assert booked(profile, Role.ROLLOUT)[("rollout", SpanKind.BUSY)] == 60.0
    assert profile.roles[0].unattributed_s() == pytest.approx(0.0)


def test_any_other_total_is_wall_time_and_generation_runs_beside_it() -> None:
    reading = reading_of(70.0)
    assert reading.profile.schedule == "async"
    trainer = booked(reading.profile, Role.TRAINER)
    assert trainer[("rollout", SpanKind.EXPOSED_WAIT)] == 30.0  # 70 - 10 - 25 - 5
    assert booked(reading.profile, Role.ROLLOUT) == {("rollout", SpanKind.BUSY): 60.0}
    assert any("lock" in note.text for note in reading.notes)
