import pytest
from fixture_steps import paste_of, points, profile_in, steps_in

from steptune.core.paste import ValueStatus
from steptune.core.phase import Role, SpanKind
from steptune.readers.facts import JobFacts
from steptune.readers.prime_rl.profile import to_reading
from steptune.readers.step import Reading, StepRecord


def test_orchestrator_steps_carry_reward_and_async_level() -> None:
    paste = paste_of("prime_rl_orchestrator.txt")
    assert paste.framework == "prime_rl"
    assert points(paste, "step_time") == [(0, 42.77, 10), (1, 32.21, 13), (2, 15.28, 16)]
    assert [value for _, value, _ in points(paste, "reward")] == [0.2938, 0.2826, 0.2701]
    assert [value for _, value, _ in points(paste, "async_level")] == [0.0, 1.0, 2.0]
    profile = profile_in(paste)
    assert (profile.schedule, profile.placement) == ("async", "disaggregated")
    assert any("pipeline fills" in note.text for note in paste.notes)


def test_the_undefined_throughput_of_step_0_keeps_it_out_of_the_mean() -> None:
    paste = paste_of("prime_rl_trainer.txt")
    profile = profile_in(paste)
    assert profile.step_time.value == pytest.approx((0.60 + 0.35 + 0.36 + 0.36) / 4)
    assert any("undefined, not zero" in note.text for note in paste.notes)
    mfu = paste.get_series("mfu")
    assert mfu is not None
    assert [round(p.value, 6) for p in mfu.points] == [0.0, 0.01, 0.012, 0.013, 0.014]
    assert mfu.points[0].status is ValueStatus.IMPLAUSIBLE
    assert points(paste, "memory_reserved_gib")[-1] == (4, 5.2, 6)
    assert [value for _, value, _ in points(paste, "loss")][:2] == [12.25, 12.3125]


def test_bare_fields_are_read_and_the_two_processes_keep_their_own_time() -> None:
    paste = paste_of("prime_rl_bare_fields.txt")
    assert points(paste, "step_time") == [(1, 27.9, 3)]
    assert points(paste, "orchestrator Time") == [(1, 956.0, 2)]
    assert points(paste, "mismatch_k3") == [(1, 0.0006, 3)]
    assert points(paste, "mfu") == [(1, pytest.approx(0.314), 3)]
    assert points(paste, "clipped_frac") == [(1, 0.0, 2)]
    profile = profile_in(paste)
    assert [(role.role, role.wall_s) for role in profile.roles] == [(Role.TRAINER, 27.9), (Role.CONTROLLER, 956.0)]


def test_waiting_for_a_batch_is_a_wait_in_the_metrics_file() -> None:
    values = {"time/step": 100.0, "time/wait_for_batch": 50.0, "time/forward_backward": 40.0, "perf/mfu": 31.4}
    readings = {key: Reading(key=key, value=value, text=str(value), line=1) for key, value in values.items()}
    records = [StepRecord(number=5, path="metrics.jsonl", readings=readings)]
    reading = to_reading(records, JobFacts(version=None, settings={}))
    assert reading is not None
    [trainer] = reading.profile.roles
    assert [(p.phase, p.kind, p.seconds.value) for p in trainer.phases] == [
        ("rollout", SpanKind.EXPOSED_WAIT, 50.0),
        ("train", SpanKind.BUSY, 40.0),
    ]
    assert not any("perf/mfu" in note.text for note in reading.notes)


def test_a_list_of_lines_printed_as_one_holds_several_steps() -> None:
    paste = paste_of("prime_rl_list.txt")
    assert points(paste, "step_time") == [(13, 7.47, 2), (14, 0.58, 2)]
    assert [value for _, value, _ in points(paste, "async_level")] == [1.0, 2.0]
    assert [value for _, value, _ in points(paste, "Max. Off-Policy Level")] == [1.0, 0.0]


def test_rollouts_without_advantage_are_counted_for_the_step_that_follows() -> None:
    text = (
        "00:26:38    INFO Detected 66/128 rollouts (gibberish=6, zero_advantage=60), enforced 60\n"
        "00:26:38 SUCCESS Step 0 | Time: 2.74s | Reward: 0.25 | Async Level: 0 | Max. Off-Policy Level: 0\n"
        "00:26:41 SUCCESS Step 1 | Time: 2.91s | Reward: 0.26 | Async Level: 1 | Max. Off-Policy Level: 0\n"
    )
    first, second = steps_in("prime_rl", text)
    assert first.value("zero_advantage / rollouts") == 60 / 128
    assert second.value("zero_advantage / rollouts") is None
