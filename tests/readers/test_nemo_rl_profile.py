from pathlib import Path

import pytest
from reader_logs import FIXTURES, assert_is_sound, profile_at, profile_of, seconds, steps_in

from steptune.core.estimate import Source
from steptune.core.phase import Role, SpanKind
from steptune.readers.read_paste import read_paste

BUSY, WAIT = SpanKind.BUSY, SpanKind.EXPOSED_WAIT


def test_exposed_generation_is_the_trainers_wait_not_capacity() -> None:
    profile = profile_of("nemo_rl_async.txt")
    trainer = profile.role(Role.TRAINER)
    assert trainer is not None
    # exposed_generation 32.52 + buffer_sampling 1.38
    assert trainer.wait_s() == pytest.approx(33.90)
    # 25.05 + 4.78 + 1.34 + 1.06 + 0.13
    assert trainer.busy_s() == pytest.approx(32.36)
    # 66.55 - 33.90 - 32.36; data_processing 0.23 is its child
    assert trainer.unattributed_s() == pytest.approx(0.29)
    assert profile.busy("rollout") == 0
    assert profile.role(Role.ROLLOUT) is None
    assert (profile.schedule, profile.staleness_mean, profile.health.reward_mean) == ("async", 1.0, 0.3486)
    assert_is_sound(profile)


def test_a_synchronous_log_books_generation_on_the_rollout_role() -> None:
    profile = profile_of("nemo_rl_sync.txt")
    trainer = profile.role(Role.TRAINER)
    assert trainer is not None
    assert seconds(profile, Role.ROLLOUT, "rollout", BUSY) == pytest.approx(4.95)
    assert seconds(profile, Role.TRAINER, "rollout", WAIT) == pytest.approx(4.95)
    # 10.97 + 6.49 + 3.14 + 2.20 + 0.85 + 0.75; the transfer of 0.60 is inside the 2.20
    assert trainer.busy_s() == pytest.approx(24.40)
    assert seconds(profile, Role.TRAINER, "weight_sync/transfer", BUSY) == pytest.approx(0.60)
    # 35.70 - 24.40 - 4.95 - 0.01
    assert trainer.unattributed_s() == pytest.approx(6.34)
    assert profile.framework_version == "0.5.0"
    assert_is_sound(profile)


def test_devices_and_placement_follow_from_the_printed_throughputs() -> None:
    profile = profile_of("nemo_rl_sync.txt")
    trainer, rollout = profile.role(Role.TRAINER), profile.role(Role.ROLLOUT)
    assert trainer is not None
    assert rollout is not None
    # 21723.53 / 2715.44 = 61967.76 / 7745.97 = 8588.75 / 1073.59 = 8: both groups hold all devices
    assert (trainer.num_devices, rollout.num_devices, profile.placement) == (8, 8, "colocated")
    assert profile.tokens_per_step is not None
    # 8588.75 tokens/s x 35.70 s
    assert profile.tokens_per_step.value == pytest.approx(306618.4, abs=0.1)
    assert profile.tokens_per_step.source is Source.DERIVED
    assert (profile.work.prompts_per_step, profile.work.group_size) == (16, 64)


def test_numbered_blocks_become_steps_and_warmup_is_dropped(tmp_path: Path) -> None:
    block = (FIXTURES / "nemo_rl_async.txt").read_text().partition("\n")[2]
    banner = "=" * 25
    log = tmp_path / "run.log"
    log.write_text("".join(f"{banner} Step {n}/9 {banner}\n{block}\n" for n in range(1, 6)))
    profile = profile_at([log])
    assert (profile.num_steps, profile.num_warmup) == (3, 2)
    assert profile.step_time.value == pytest.approx(66.55)
    assert profile.step_time.low == pytest.approx(66.55)


def test_blocks_without_banner_are_told_apart_by_their_headings() -> None:
    block = (FIXTURES / "nemo_rl_async.txt").read_text()
    assert [
        step.value("Total step time") for step in steps_in((block + block).splitlines(keepends=True), "nemo_rl")
    ] == [66.55] * 2


def test_a_number_that_disagrees_with_its_printed_share_is_left_out(tmp_path: Path) -> None:
    text = (FIXTURES / "nemo_rl_async.txt").read_text().replace("policy_training: 25.05s", "policy_training: 2.05s")
    log = tmp_path / "run.log"
    log.write_text(text)
    assert "phase.train" in profile_at([log]).missing
    assert any("disagrees with its share" in note.text for note in read_paste([log]).notes)


def test_a_rate_printed_among_the_timers_is_not_read_as_seconds(tmp_path: Path) -> None:
    text = (FIXTURES / "nemo_rl_async.txt").read_text()
    log = tmp_path / "run.log"
    # as the single-controller driver prints it: 1234 / 66.55 = 1854.2 %
    log.write_text(text + "  • valid_tokens_per_sec_per_gpu: 1234.00s (1854.2%)\n\n")
    trainer = profile_at([log]).role(Role.TRAINER)
    assert trainer is not None
    assert trainer.unattributed_s() == pytest.approx(0.29)


def test_a_block_cut_inside_its_timers_is_left_out_while_others_are_whole(tmp_path: Path) -> None:
    block = (FIXTURES / "nemo_rl_async.txt").read_text()
    log = tmp_path / "run.log"
    log.write_text(block + "\n" + block[: block.index("  • policy_and_reference")])
    profile = profile_at([log])
    assert profile.num_steps == 1
    assert seconds(profile, Role.TRAINER, "old_logprob", BUSY) == pytest.approx(4.78)


def test_a_prefix_before_every_line_is_no_obstacle(tmp_path: Path) -> None:
    log = tmp_path / "slurm.out"
    text = (FIXTURES / "nemo_rl_async.txt").read_text()
    for prefix in ("0: ", "2025-11-10 10:00:00,123 INFO ", "> "):
        log.write_text("".join(f"{prefix}{line}\n" for line in text.splitlines()))
        assert profile_at([log]).step_time.value == pytest.approx(66.55), prefix


def test_utilisation_in_percent_and_flops_are_read(tmp_path: Path) -> None:
    text = (FIXTURES / "nemo_rl_async.txt").read_text()
    more = "  • Training FLOPS: 1234.50 TFLOPS (154.31 TFLOPS per rank)\n"
    more += "  • Training Model Floating Point Utilization: 15.60%\n"
    log = tmp_path / "run.log"
    log.write_text(text.replace("  • Avg Reward", more + "  • Avg Reward"))
    paste = read_paste([log])
    mfu, flops = paste.get_series("mfu"), paste.get_series("Training FLOPS")
    assert mfu is not None
    assert flops is not None
    assert (mfu.finite(), flops.finite()) == ([pytest.approx(0.156)], [1234.5])


@pytest.mark.parametrize("bullet", ["• ", "- ", "* ", ""])
def test_a_list_of_timers_is_read_whatever_bullet_it_has_kept(bullet: str, tmp_path: Path) -> None:
    lines = ("Total step time: 160.00s", "generation: 88.00s (55.0%)", "policy_training: 40.00s (25.0%)")
    log = tmp_path / "post.txt"
    log.write_text("Timing:\n" + "".join(f"  {bullet}{line}\n" for line in lines))
    profile = profile_at([log])
    assert (profile.framework, profile.step_time.value) == ("nemo_rl", 160.0)
    assert seconds(profile, Role.ROLLOUT, "rollout", BUSY) == 88.0
    assert seconds(profile, Role.TRAINER, "train", BUSY) == 40.0
