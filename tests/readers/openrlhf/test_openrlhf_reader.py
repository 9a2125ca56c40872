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


def batches(*postfixes: str) -> str:
    """A bar over training batches: each is drawn with its values and again when the next one begins."""
    states = [(n, values) for n, values in enumerate(postfixes) for n in (n, n + 1)]
    return "".join(
        f"Train epoch [1/1]:  50%|█████     | {n}/8 [00:1{n}<00:05,  1.94s/it, {values}]\n(ActorModelRayActor pid=7) \n"
        for n, values in states
        if n
    )


def test_behind_the_bar_over_training_batches_stand_values_but_no_time() -> None:
    names = "act_loss={}, reward={}, return=-0.0473, gen_len={}, tot_len=2344.25, kl=0, act_lr=2.44e-7"
    text = batches(*(names.format(*v) for v in ((0.0466, 0.288, 318), (0.795, 0.17, 282), (-0.722, 0.35, 420))))
    steps = steps_in("openrlhf", text)
    assert [step.value("reward") for step in steps] == [0.288, 0.17, 0.35]
    assert [step.value("policy_loss") for step in steps] == [0.0466, 0.795, -0.722]
    assert [step.value("response_length") for step in steps] == [318, 282, 420]
    assert {key for step in steps for key in step.readings if "s/it" in key or "time" in key} == set()
    assert to_reading(steps, JobFacts(version=None, settings={})) is None


def test_the_names_of_the_older_bar_mean_the_same() -> None:
    [first, second] = steps_in(
        "openrlhf", batches("pg=-0.1, rm=0.5, ret=0.4, glen=100, kl=0.01", "pg=0.2, rm=0.6, kl=0.02")
    )
    assert (first.value("reward"), first.value("response_length")) == (0.5, 100)
    assert (second.value("reward"), second.value("policy_loss"), second.value("kl")) == (0.6, 0.2, 0.02)


def test_where_a_step_has_its_dict_the_batches_are_not_steps_too() -> None:
    record = "Global step 1: {'policy_loss': 0.1, 'reward': 0.4, 'timing/step_total': 30.0}\n"
    [step] = steps_in("openrlhf", batches("pg=-0.1, rm=0.5", "pg=0.2, rm=0.6") + record + batches("pg=0.3, rm=0.7"))
    assert (step.number, step.value("reward")) == (1, 0.4)


def test_a_value_that_the_lines_end_cuts_is_not_read() -> None:
    [step] = steps_in("openrlhf", "Train epoch [1/1]:  50%|█████     | 4/8 [00:11<00:05,  1.94s/it, pg=0.25, rm=0.28\n")
    assert (step.value("policy_loss"), step.value("reward")) == (0.25, None)


def test_behind_the_bar_over_an_episode_stand_its_metrics_too() -> None:
    text = "Episode [1/1]:  24%|# | 2431/9050 [12:59:12<20:32:20,  9.70s/it, policy_loss=0.04, reward=0.827]\n"
    [step] = steps_in("openrlhf", text)
    assert (step.number, step.value("policy_loss"), step.value("reward")) == (2431, 0.04, 0.827)
