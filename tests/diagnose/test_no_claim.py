import pytest
from paste_cases import excerpt, paste, series, setting, settings, step

from steptune.core.finding import Finding, FindingKind
from steptune.core.paste import ExcerptKind, Paste
from steptune.diagnose.job import read_job
from steptune.diagnose.no_claim import no_claims, switch_on


def claims(given: Paste) -> dict[str, Finding]:
    found = {f.code: f for f in no_claims(read_job(given))}
    assert all(f.kind is FindingKind.NO_CLAIM and f.share is None for f in found.values())
    return found


def test_nothing_read_says_so_and_that_nothing_is_timed() -> None:
    assert list(claims(paste(framework=None, num_steps_seen=0))) == ["no_data", "no_timing"]


def test_a_configuration_alone_has_no_timing_and_says_what_prints_it() -> None:
    given = paste(settings=settings(data__train_batch_size=64), num_steps_seen=0)
    assert claims(given)["no_timing"].remedies[0].lines[0].startswith("trainer.logger=")
    assert any("timing_s" in line for line in switch_on(given))


@pytest.mark.parametrize(
    "framework",
    ["verl", "nemo_rl", "trl", "prime_rl", "slime", "skyrl", "openrlhf", "areal", "unsloth", "torchforge", "easyr1"],
)
def test_every_framework_has_something_to_switch_on(framework: str) -> None:
    assert switch_on(paste(framework=framework, settings=settings(x=1)))


def test_with_timers_there_is_nothing_to_switch_on() -> None:
    given = paste(step({"rollout": 1.0}))
    assert switch_on(given) == ()
    assert not {"no_timing", "partial_timing"} & set(claims(given))


def test_a_progress_bar_is_partial_timing() -> None:
    bar = excerpt("1/1000 [04:41<78:02:42, 281.24s/it]", ExcerptKind.PROGRESS)
    found = claims(paste(excerpts=(bar,), series=(series("reward", 0.04),)))
    assert "281.24" in found["partial_timing"].evidence[0].text
    timed = claims(paste(excerpts=(bar,), series=(series("step_time", 281.24, key="s/it"),)))["partial_timing"]
    assert "about 4 m 41 s a step by one reading that may hold loading" in timed.title
    assert "no_timing" not in found


@pytest.mark.parametrize("key", ["timing/generate", "perf/train_time"])
def test_a_timer_of_a_phase_without_its_step_is_partial_timing(key: str) -> None:
    assert "partial_timing" in claims(paste(framework="skyrl", series=(series(key, 667.3), series("reward", 0.1))))


def test_a_rollout_timer_alone_is_partial_timing() -> None:
    given = paste(framework="slime", series=(series("perf/rollout_time", 371.2), series("reward", 0.1)))
    assert "partial_timing" in claims(given)


def test_whole_steps_without_phases_are_partial_timing() -> None:
    whole = step({"rollout": 1.0}).model_copy(update={"roles": ()})
    assert "Only whole steps are timed" in claims(paste(whole))["partial_timing"].title


def test_a_role_whose_phases_are_not_timed_is_no_timing_of_phases() -> None:
    timed = step({"rollout": 1.0})
    bare = timed.model_copy(update={"roles": tuple(r.model_copy(update={"phases": ()}) for r in timed.roles)})
    assert "partial_timing" in claims(paste(bare))
    assert switch_on(paste(bare))


def test_one_step() -> None:
    assert "one_step" in claims(paste(step({"rollout": 1.0}, num_steps=1)))
    assert "one_step" not in claims(paste(step({"rollout": 1.0}, num_steps=5)))


@pytest.mark.parametrize(("first", "count", "is_warm"), [(1, 2, True), (0, 2, True), (1, 3, False), (5, 1, False)])
def test_warm_up_steps_alone(first: int, count: int, is_warm: bool) -> None:
    times = series("step_time", *[10.0] * count, first_step=first)
    assert ("warm_up_only" in claims(paste(step({"rollout": 1.0}), series=(times,)))) is is_warm


def test_a_moving_async_level_is_a_ramp_up() -> None:
    times = series("step_time", 42.77, 32.21, 15.28, first_step=0)
    level = series("async_level", 0.0, 1.0, 2.0, first_step=0)
    assert "async level still moves" in claims(paste(step({"rollout": 30.0}), series=(times, level)))["ramp_up"].title


def test_an_async_level_that_wavers_is_no_ramp_up() -> None:
    times = series("step_time", *[10.0] * 6)
    for level in ((1.0, 2.0, 1.0, 2.0, 1.0, 2.0), (2.0, 1.0, 2.0, 2.0, 1.0, 2.1)):
        given = paste(step({"rollout": 10.0}), series=(times, series("async_level", *level)))
        assert "ramp_up" not in claims(given)


def test_times_per_token_of_answers_without_length_are_no_ramp_up() -> None:
    lengths = series("completion_mean", *[5e-324] * 6)
    assert "ramp_up" not in claims(paste(step({"rollout": 10.0}), series=(series("step_time", *[10.0] * 6), lengths)))


@pytest.mark.parametrize(
    ("times", "is_moving"),
    [
        ((5.13, 0.60, 0.35, 0.36, 0.36), False),  # warm-up, then steady
        ((10.0, 10.2, 9.9, 10.1, 10.0, 9.8), False),
        ((40.0, 36.0, 33.0, 30.0, 27.0, 24.0, 22.0, 20.0), True),
        ((42.8, 32.2, 15.3), True),
        ((10.0, 9.5, 9.0), False),
        ((100.0, 60.0, 55.0), False),  # a slow first step is warm-up
        ((10.0,), False),
        ((15.0, 32.0, 43.0, 50.0, 60.0), False),  # slower is no ramp-up
    ],
)
def test_a_falling_step_time_is_a_ramp_up_and_noise_is_not(times: tuple[float, ...], is_moving: bool) -> None:
    given = paste(step({"rollout": 10.0}), series=(series("step_time", *times),))
    assert ("ramp_up" in claims(given)) is is_moving


def test_a_log_without_reward_cannot_pass_a_reward_gate() -> None:
    assert "no_reward" in claims(paste(series=(series("completion_mean", 2773.0),)))
    assert "no_reward" not in claims(paste(series=(series("completion_mean", 2773.0), series("reward", 0.1))))
    assert "no_reward" not in claims(paste(series=(series("timing_s/gen", 3.0),)))


def test_unresolved_settings_are_named() -> None:
    given = paste(settings=(setting("policy.x", "${mul:${a}, ${b}}", is_resolved=False),), num_steps_seen=0)
    assert "${mul:" in claims(given)["unresolved_settings"].title


def test_an_unknown_framework_is_said() -> None:
    given = paste(framework=None, settings=settings(x=1))
    assert "unknown_framework" in claims(given)
    assert switch_on(given) == ()


def test_shorter_answers_are_no_ramp_up() -> None:
    times = (40.0, 36.0, 33.0, 30.0, 27.0, 24.0, 22.0, 20.0)
    lengths = series("completion_mean", *(20 * t for t in times))
    given = paste(step({"rollout": 10.0}), series=(series("step_time", *times), lengths))
    assert "ramp_up" not in claims(given)


@pytest.mark.parametrize(("step_s", "is_said"), [(10.0, False), (12.0, False), (14.0, True), (9.0, False)])
def test_time_under_no_timer_is_said_where_it_is_large(step_s: float, is_said: bool) -> None:
    # 10 s of timers: 0, 17 and 29 % of the step are under none
    given = paste(step({"rollout": 7.0, "train": 3.0}, step_s=step_s))
    assert ("unattributed_time" in claims(given)) is is_said


def test_a_refusal_that_rests_on_step_times_says_where_they_stand() -> None:
    given = paste(step({"rollout": 1.0}, num_steps=1), series=(series("step_time", 96.5, key="timing_s/step"),))
    assert [e.origin.key for e in claims(given)["one_step"].evidence if e.origin] == ["timing_s/step"]
