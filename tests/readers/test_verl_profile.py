from pathlib import Path

import pytest
from reader_logs import FIXTURES, assert_is_sound, profile_at, profile_of, seconds

from steptune.core.estimate import Source
from steptune.core.phase import Role, SpanKind
from steptune.core.profile import SummaryLengths
from steptune.readers.read_paste import read_paste

BUSY, WAIT = SpanKind.BUSY, SpanKind.EXPOSED_WAIT


def test_a_wrapped_synchronous_log_adds_up_to_its_step() -> None:
    profile = profile_of("verl_sync_wrapped.txt")
    trainer, rollout = profile.role(Role.TRAINER), profile.role(Role.ROLLOUT)
    assert trainer is not None
    assert rollout is not None
    assert profile.schedule == "sync"
    assert profile.step_time.value == pytest.approx(96.551)
    # old_log_prob 3.566 + ref 3.420 + update_actor 14.302
    assert trainer.busy_s() == pytest.approx(21.288)
    # gen 74.020, adv on the driver 1.167
    assert trainer.wait_s() == pytest.approx(75.187)
    # 96.551 - 21.288 - 75.187
    assert trainer.unattributed_s() == pytest.approx(0.076)
    assert rollout.busy_s() == pytest.approx(74.020)
    # 3.566 + 3.420 + 1.167 + 14.302
    assert rollout.wait_s() == pytest.approx(22.455)
    assert_is_sound(profile)


def test_a_key_broken_by_the_terminal_is_put_together_again() -> None:
    lengths = profile_of("verl_sync_wrapped.txt").lengths
    assert isinstance(lengths, SummaryLengths)
    # `response_length/cl` ends one row, `ip_ratio:0.004` starts the next
    assert lengths.clipped_frac == pytest.approx(0.004)
    assert lengths.completion_mean == pytest.approx(324.958)


def test_every_phase_names_the_line_and_key_it_was_read_from() -> None:
    profile = profile_of("verl_sync_wrapped.txt")
    trainer = profile.role(Role.TRAINER)
    assert trainer is not None
    [train] = [phase for phase in trainer.phases if phase.phase == "train"]
    assert train.origin is not None
    assert train.origin.key == "timing_s/update_actor"
    # a source comment, then the two rows of the wrapped line
    assert train.origin.line == 3
    assert train.origin.path.endswith("verl_sync_wrapped.txt")


def test_a_full_synchronous_log_states_devices_replicas_work_and_version() -> None:
    profile = profile_of("verl_sync.txt")
    trainer, rollout = profile.role(Role.TRAINER), profile.role(Role.ROLLOUT)
    assert trainer is not None
    assert rollout is not None
    assert (profile.framework, profile.framework_version, profile.placement) == ("verl", "0.7", "colocated")
    assert (trainer.num_devices, rollout.num_devices) == (8, 8)
    # 8 devices / tensor parallel 4
    assert rollout.num_replicas == 2
    work = profile.work
    # 256 prompts / mini-batches of 64
    assert (work.prompts_per_step, work.group_size, work.max_completion_len, work.num_updates) == (256, 5, 4096, 4)
    assert profile.tokens_per_step is not None
    assert profile.tokens_per_step.value == 5322462
    assert profile.memory_peak_bytes is not None
    # "GB" in verl is 1024**3
    assert profile.memory_peak_bytes.value == pytest.approx(67.39736652374268 * 1024**3)
    # 143.3216 + 98.1365 + 327.7782
    assert trainer.busy_s() == pytest.approx(569.236, abs=1e-3)
    assert profile.health.truncated_frac == pytest.approx(0.896875, abs=1e-6)
    assert_is_sound(profile)


def test_devices_follow_from_throughput_when_no_configuration_is_pasted(tmp_path: Path) -> None:
    lines = (FIXTURES / "verl_sync.txt").read_text().splitlines(keepends=True)
    log = tmp_path / "run.log"
    log.write_text("".join(line for line in lines if line.startswith("step:")))
    trainer = profile_at([log]).role(Role.TRAINER)
    assert trainer is not None
    # 5322462 tokens / (1268.488 s x 524.489 tokens per second and GPU)
    assert trainer.num_devices == 8


def test_the_slowest_sample_is_a_child_and_is_not_added_to_its_parent() -> None:
    profile = profile_of("verl_sync.txt")
    rollout = profile.role(Role.ROLLOUT)
    assert rollout is not None
    assert seconds(profile, Role.ROLLOUT, "rollout/slowest_sample", BUSY) == pytest.approx(690.433, abs=1e-3)
    assert rollout.busy_s() == pytest.approx(698.880, abs=1e-3)


def test_in_a_fully_async_log_gen_is_a_wait_and_rollout_capacity_is_missing() -> None:
    profile = profile_of("verl_fully_async.txt")
    # lines 3 to 6: (13.83888 + 12.28420 + 8.76174 + 10.59514) / 4
    assert seconds(profile, Role.TRAINER, "rollout", WAIT) == pytest.approx(11.36999, abs=1e-5)
    assert seconds(profile, Role.TRAINER, "rollout", BUSY) == 0
    assert profile.busy("rollout") == 0
    assert profile.role(Role.ROLLOUT) is None
    assert "rollout" in profile.missing
    assert (profile.schedule, profile.placement, profile.framework_version) == ("async", "disaggregated", "0.8.0")
    assert_is_sound(profile)


def test_steps_of_an_async_log_are_averaged_without_warmup_and_with_an_interval() -> None:
    profile = profile_of("verl_fully_async.txt")
    step = profile.step_time
    # mean of 135.07650, 130.78451, 129.12743 and 130.79722
    assert step.value == pytest.approx(131.44641, abs=1e-5)
    # sd 2.54393, t(3) = 3.18245: 3.18245 x 2.54393 / 2 = 4.04796
    assert step.low == pytest.approx(131.44641 - 4.04796, abs=1e-4)
    assert (step.n, step.source, profile.num_steps, profile.num_warmup) == (4, Source.MEASURED, 4, 2)
    assert "4 trainer steps" in step.note
    # the doubled prefix `timing_s/timing_s/`: (9.22130 + 8.39476 + 8.11637 + 8.46664) / 4
    assert seconds(profile, Role.TRAINER, "weight_sync", BUSY) == pytest.approx(8.54977, abs=1e-5)


def test_a_role_that_waits_for_another_says_its_seconds_are_derived() -> None:
    trainer = profile_of("verl_sync.txt").role(Role.TRAINER)
    assert trainer is not None
    sources = {phase.phase: phase.seconds.source for phase in trainer.phases}
    assert sources["train"] is Source.MEASURED
    assert sources["rollout"] is Source.DERIVED


def write(tmp_path: Path, *lines: str) -> list[Path]:
    log = tmp_path / "run.log"
    log.write_text("\n".join([*lines, "end of log"]) + "\n")
    return [log]


def test_a_rollouter_clock_becomes_a_rollout_role_of_its_own(tmp_path: Path) -> None:
    paths = write(
        tmp_path,
        "step:9 - fully_async/rollouter/active_time:60.0 - fully_async/rollouter/version_time:100.0 - "
        "fully_async/rollouter/idle_ratio:0.4",
        "step:9 - timing_s/gen:5.0 - timing_s/update_actor:80.0 - timing_s/step:99.0 - perf/throughput:1.0",
    )
    profile = profile_at(paths)
    rollout = profile.role(Role.ROLLOUT)
    assert rollout is not None
    # busy 60 of 100, the other 40 paused
    assert (rollout.wall_s, rollout.busy_s(), rollout.wait_s()) == (100.0, 60.0, 40.0)
    assert profile.num_steps == 1
    assert_is_sound(profile)


def test_one_step_off_reads_the_batch_time_as_rollout_work_and_gen_as_wait(tmp_path: Path) -> None:
    paths = write(
        tmp_path,
        "step:7 - timing_s/generate_async:70.0 - timing_s/gen:12.5 - timing_s/sync_rollout_weights:3.0 - "
        "timing_s/update_weights:2.0 - timing_s/update_actor:60.0 - timing_s/step:80.0 - perf/throughput:20.0",
    )
    profile = profile_at(paths)
    assert seconds(profile, Role.ROLLOUT, "rollout", BUSY) == 70.0
    assert seconds(profile, Role.TRAINER, "rollout", WAIT) == 12.5
    # `update_weights` runs inside `sync_rollout_weights`
    assert seconds(profile, Role.TRAINER, "weight_sync", BUSY) == 3.0
    trainer = profile.role(Role.TRAINER)
    assert trainer is not None
    # 80 - 60 - 3 - 12.5
    assert trainer.unattributed_s() == pytest.approx(4.5)


@pytest.mark.parametrize(
    "mark",
    [
        "(FullyAsyncTrainer pid=7) ready",
        "python3 -m verl.experimental.one_step_off_policy.main_ppo",
        "    trainer.v1.trainer_mode=separate_async \\",
        "async_training.staleness_threshold=0.5",
    ],
)
def test_the_trainer_that_was_started_decides_where_the_keys_do_not(tmp_path: Path, mark: str) -> None:
    line = "step:7 - timing_s/gen:12.5 - timing_s/update_actor:60.0 - timing_s/step:80.0 - perf/throughput:20.0"
    assert profile_at(write(tmp_path, line)).busy("rollout") == 12.5
    profile = profile_at(write(tmp_path, mark, line))
    assert profile.schedule == "async"
    assert profile.busy("rollout") == 0


def test_v1_staleness_above_zero_makes_gen_a_wait(tmp_path: Path) -> None:
    keys = "timing_s/gen:12.5 - timing_s/step:80.0 - training/off_policy/trajectory_staleness_worst/max:{} - a/b:1"
    assert profile_at(write(tmp_path, f"step:7 - {keys.format(0)}")).schedule == "sync"
    assert profile_at(write(tmp_path, f"step:7 - {keys.format(2)}")).schedule == "async"


def test_validation_after_the_step_is_not_part_of_it_but_inside_it_is(tmp_path: Path) -> None:
    step = "step:7 - timing_s/gen:40.0 - timing_s/update_actor:30.0 - timing_s/testing:{} - timing_s/step:80.0 - a/b:1"
    outside = profile_at(write(tmp_path, step.format(25.0)))
    inside = profile_at(write(tmp_path, step.format(9.0)))
    # 80 - 40 - 30 leaves 10 s
    assert seconds(outside, Role.ROLLOUT, "validate", BUSY) == 0
    assert seconds(inside, Role.ROLLOUT, "validate", BUSY) == 9.0


def test_a_checkpoint_in_one_step_of_four_is_spread_over_all(tmp_path: Path) -> None:
    step = "step:{} - timing_s/gen:40.0{} - timing_s/step:80.0 - a/b:1"
    lines = [step.format(n, " - timing_s/save_checkpoint:20.0" if n == 5 else "") for n in (3, 4, 5, 6)]
    profile = profile_at(write(tmp_path, *lines))
    assert seconds(profile, Role.TRAINER, "checkpoint", BUSY) == 5.0


def test_a_step_with_a_broken_timer_is_left_out_while_others_are_whole(tmp_path: Path) -> None:
    step = "step:{} - timing_s/gen:{} - timing_s/step:80.0 - a/b:1"
    paths = write(tmp_path, step.format(3, "40.0"), step.format(4, "nan"), step.format(5, "42.0"))
    profile = profile_at(paths)
    assert seconds(profile, Role.ROLLOUT, "rollout", BUSY) == 41.0
    assert profile.num_steps == 2


def test_an_unknown_timer_is_never_added_up(tmp_path: Path) -> None:
    line = "step:7 - timing_s/gen:40.0 - timing_s/generate_sequences:39.0 - timing_s/step:80.0 - a/b:1"
    paths = write(tmp_path, line)
    trainer = profile_at(paths).role(Role.TRAINER)
    assert trainer is not None
    assert trainer.unattributed_s() == 40.0
    assert any("timing_s/generate_sequences" in note.text for note in read_paste(paths).notes)


def test_what_the_log_does_not_say_is_listed_and_none() -> None:
    profile = profile_of("verl_sync_wrapped.txt")
    assert {"framework_version", "tokens_per_step", "trainer.num_devices", "phase.weight_sync"} <= set(profile.missing)
    assert profile.tokens_per_step is None
    assert profile.mismatch is None


@pytest.mark.parametrize("name", ["collect_trajectory", "generate_trajectories"])
def test_a_forks_name_of_the_rollout_counts_where_verls_is_not_there(name: str, tmp_path: Path) -> None:
    row = f"step:3 - timing_s/{name}:150.0 - {{}}timing_s/update_actor:75.0 - timing_s/step:260.0 - a/b:1.0\n"
    log = tmp_path / "run.log"
    log.write_text(row.format(""))
    assert seconds(profile_at([log]), Role.ROLLOUT, "rollout", SpanKind.BUSY) == 150.0
    log.write_text(row.format("timing_s/gen:170.0 - "))
    assert seconds(profile_at([log]), Role.ROLLOUT, "rollout", SpanKind.BUSY) == 170.0
