from pathlib import Path

import pytest
from fixture_steps import booked, paste_of, points, profile_in, steps_in, steps_of

from steptune.core.estimate import Source
from steptune.core.phase import Role, SpanKind
from steptune.readers.read_paste import read_paste


def test_one_step_is_merged_from_records_of_two_actors_and_two_wrappings() -> None:
    paste = paste_of("miles_actors.txt")
    assert paste.framework == "slime"
    assert paste.num_steps_seen == 1
    assert points(paste, "reward") == [(0, 0.41, 3)]
    assert points(paste, "tokens_per_device_s") == [(0, 1000.0, 4)]
    assert points(paste, "step_time") == [(0, 8.0, 5)]
    assert points(paste, "mismatch_mean_abs") == [(0, 0.01, 6)]


def test_a_rollout_longer_than_the_wait_runs_beside_training_and_only_the_wait_is_the_trainers() -> None:
    profile = profile_in(paste_of("miles_actors.txt"))
    assert profile.schedule == "async"
    trainer = booked(profile, Role.TRAINER)
    assert trainer[("rollout", SpanKind.EXPOSED_WAIT)] == 2.3  # 2.4 s wait - 0.1 s weight update
    assert trainer[("unattributed/train_wait", SpanKind.EXPOSED_WAIT)] == 2.4
    assert trainer[("weight_sync", SpanKind.BUSY)] == 0.1
    assert booked(profile, Role.ROLLOUT) == {("rollout", SpanKind.BUSY): 4.8}
    wait = next(p for r in profile.roles for p in r.phases if p.phase == "rollout" and r.role is Role.TRAINER)
    assert wait.seconds.source is Source.DERIVED


def test_the_old_name_of_the_step_time_is_read_and_lost_quotes_are_forgiven() -> None:
    paste = paste_of("slime_old_names.txt")
    assert paste.framework == "slime"
    profile = profile_in(paste)
    assert profile.step_time.value == 287.2645092010498
    assert booked(profile, Role.ROLLOUT)[("rollout", SpanKind.BUSY)] == 245.611
    assert points(paste, "step_time") == [(None, 287.2645092010498, 18)]


def test_rollout_metrics_alone_give_series_but_no_step() -> None:
    paste = paste_of("slime_rollout_only.txt")
    assert paste.profile is None
    assert paste.get_series("reward") is None
    assert points(paste, "completion_mean") == [(0, 2773.71484375, 3)]
    assert points(paste, "clipped_frac") == [(0, 0.46484375, 3)]
    assert points(paste, "perf/rollout_time") == [(0, 371.1796889305115, 3)]
    assert points(paste, "rollout/zero_std/count_1") == [(0, 14.0, 3)]


def test_runs_that_start_again_in_one_file_stay_apart() -> None:
    paste = paste_of("slime_runs.txt")
    rewards = points(paste, "reward")
    assert [step for step, _, _ in rewards] == [0, 1, 0, 1, 0, 1]
    assert [value for _, value, _ in rewards] == [
        0.677734375,
        0.658203125,
        0.6484375,
        0.6796875,
        0.603515625,
        0.59765625,
    ]
    assert points(paste, "effective_tokens_per_device_s")[0] == (0, 858.997530962147, 5)


def test_grep_numbers_are_no_part_of_a_record_and_normalised_rewards_are_no_reward() -> None:
    paste = paste_of("slime_grep.txt")
    assert points(paste, "reward") == [(0, 0.20833333333333334, 7)]
    assert points(paste, "tokens_per_device_s") == [(0, 177.57723916502007, 6)]
    assert points(paste, "effective_tokens_per_device_s") == [(0, 57.23447888968867, 6)]
    assert points(paste, "grad_norm") == [(0, 1.0249093224958925, 8)]


def test_without_the_rollout_managers_line_the_trainers_wait_is_all_that_is_known() -> None:
    paste = paste_of("slime_pretty.txt")
    profile = profile_in(paste)
    assert profile.role(Role.ROLLOUT) is None
    trainer = booked(profile, Role.TRAINER)
    # 347.606 - (2.530 weights + 5.324 sleep + 2.576 wake-up + 0.056 data)
    assert trainer[("rollout", SpanKind.EXPOSED_WAIT)] == pytest.approx(337.119)
    assert trainer[("train", SpanKind.BUSY)] == 46.912
    assert trainer[("mode_switch", SpanKind.BUSY)] == pytest.approx(7.9, abs=2e-3)
    assert profile.roles[0].unattributed_s() == pytest.approx(0.681, abs=1e-3)


def test_rows_of_one_length_are_a_screens_and_hide_no_number() -> None:
    [step] = steps_of("slime", "slime_scanned.txt")
    # 0.10 | 894346237182617, 'perf/wake_up_ti | me', and :_1.4039483070373535 read off a picture
    assert step.value("perf/log_probs_time") == 0.10894346237182617
    assert step.value("perf/wake_up_time") == 1.9440078735351562
    assert step.value("perf/ref_log_probs_time") == 1.4039483070373535
    assert step.value("perf/step_time") == 14.182998418807983
    assert step.readings["perf/step_time"].line == 5
    assert step.readings["perf/log_probs_time"].line == 3


def test_of_the_trainers_wait_only_what_no_switch_takes_is_the_rollouts() -> None:
    trainer = booked(profile_in(paste_of("slime_scanned.txt")), Role.TRAINER)
    # 11.334 - (4.036 sleep + 1.944 wake-up + 0.002 data); the key of the weight update is misread
    assert trainer[("rollout", SpanKind.EXPOSED_WAIT)] == pytest.approx(5.352, abs=2e-3)
    assert trainer[("mode_switch", SpanKind.BUSY)] == pytest.approx(5.98, abs=2e-3)


def test_one_full_row_may_be_so_by_chance_and_its_broken_number_is_dropped() -> None:
    first = (
        "perf 2: {'perf/sleep_time': 4.035936594009399, 'perf/train_wait_time': 11.33387, 'perf/log_probs_time': 0.10"
    )
    [step] = steps_in("slime", f"{first}\n894346237182617, 'perf/step_time': 14.18}}\n")
    assert step.value("perf/log_probs_time") is None
    assert step.has_broken("perf/log_probs_time")
    assert step.value("perf/step_time") == 14.18


def test_optimizer_steps_belong_to_the_rollout_before_them() -> None:
    text = (
        "rollout 272: {'rollout/raw_reward': 0.5}\n"
        "step 544: {'train/grad_norm': 1.0}\n"
        "step 545: {'train/grad_norm': 9.0}\n"
        "perf 273: {'perf/rollout_time': 7.0}\n"
        "perf 272: {'perf/train_wait_time': 8.0, 'perf/train_time': 2.0, 'perf/step_time': 10.0}\n"
    )
    first, second = steps_in("slime", text)
    assert (first.number, first.value("train/grad_norm"), first.value("perf/step_time")) == (272, 1.0, 10.0)
    assert (second.number, set(second.readings)) == (273, {"perf/rollout_time"})


def test_mean_times_of_a_samples_parts_are_of_no_step() -> None:
    paste = paste_of("slime_runs.txt")
    assert points(paste, "component_time/sandbox_provider_acquire/mean") == [(None, 129.35, 20)]
    assert points(paste, "component_time/sglang_generate_http_s/mean") == [(None, 16.28, 21)]


def test_a_table_made_by_hand_is_a_step(tmp_path: Path) -> None:
    log = tmp_path / "post.md"
    rows = "| phase | time |\n|---|---|\n| rollout | 4m05s |\n| actor_train | 30s |\n| step | 5m |\n"
    log.write_text("--rollout-num-gpus-per-engine 1 --sglang-mem-fraction-static 0.7\n" + rows, encoding="utf-8")
    profile = profile_in(read_paste([log]))
    assert (profile.framework, profile.step_time.value) == ("slime", 300.0)
    assert booked(profile, Role.ROLLOUT)[("rollout", SpanKind.BUSY)] == 245.0


@pytest.mark.parametrize(
    "text",
    [
        "step {n}: {{'train/loss': 0.1, 'train/pg_clipfrac': 0.0, 'train/grad_norm': {norm}, 'train/step': {n}}}\n",
        "# step {n}: train/loss=0.1, train/pg_clipfrac=0.0, train/grad_norm={norm}\n",
    ],
)
def test_optimizer_steps_without_the_lines_of_their_rollouts_stay_apart(text: str, tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text("".join(text.format(n=n, norm=norm) for n, norm in ((3, 0.5), (4, 0.75), (90, 4e8))))
    paste = read_paste([log])
    assert [value for _, value, _ in points(paste, "grad_norm")] == [0.5, 0.75, 4e8]
    assert {step for step, _, _ in points(paste, "grad_norm")} == {None}  # none of them says its rollout


def test_optimizer_steps_before_the_first_rollout_do_not_join_a_later_one(tmp_path: Path) -> None:
    log = tmp_path / "cut.log"
    step = "step {n}: {{'train/loss': 0.1, 'train/grad_norm': {norm}, 'train/step': {n}}}\n"
    rollout = "rollout {n}: {{'rollout/raw_reward': 0.5, 'rollout/response_len/mean': 90.0}}\n"
    log.write_text(
        step.format(n=6, norm=0.1)
        + step.format(n=7, norm=0.2)
        + rollout.format(n=4)
        + step.format(n=8, norm=0.3)
        + step.format(n=9, norm=0.4)
    )
    found = [(step, value) for step, value, _ in points(read_paste([log]), "grad_norm")]
    assert found == [(None, 0.1), (None, 0.2), (4, 0.3)]
