from pathlib import Path

import pytest
from fixture_steps import booked, paste_of, points, profile_in, steps_in, steps_of

from steptune.core.estimate import Source
from steptune.core.paste import ValueStatus
from steptune.core.phase import Role, SpanKind
from steptune.readers.facts import JobFacts
from steptune.readers.read_paste import read_paste
from steptune.readers.trl.keys import normal_key
from steptune.readers.trl.profile import to_reading


def test_three_generations_of_notation_give_the_same_quantities() -> None:
    paste = paste_of("trl_three_styles.txt")
    assert paste.framework == "trl"
    assert points(paste, "completion_mean") == [(17, 134.934765625, 3), (None, 719.1, 4), (15, 26.84, 5)]
    assert [value for _, value, _ in points(paste, "clipped_frac")] == [0.08203125, 0.775, 0.0]
    assert [value for _, value, _ in points(paste, "reward")] == [1.131640625, 0.2875, 0.05687]
    assert points(paste, "zero_std_frac") == [(None, 0.0, 4), (15, 0.25, 5)]


def test_a_bar_gives_a_step_time_series_but_no_profile() -> None:
    paste = paste_of("trl_open_r1.txt")
    assert paste.framework == "trl"
    assert paste.profile is None
    assert points(paste, "step_time") == [(1, 281.24, 4)]
    assert points(paste, "completion_mean") == [(1, 827.9754867553711, 3)]
    assert points(paste, "loss") == [(1, 0.0, 3)]


def test_deepspeed_timers_are_training_and_the_bar_is_a_derived_step() -> None:
    paste = paste_of("trl_deepspeed.txt")
    profile = profile_in(paste)
    assert (profile.step_time.value, profile.step_time.source) == (379.99, Source.DERIVED)
    # 114577.10 + 117430.12 + 105.42 ms
    assert booked(profile, Role.TRAINER)[("train", SpanKind.BUSY)] == pytest.approx(232.113, abs=2e-3)
    assert profile.role(Role.ROLLOUT) is None
    assert points(paste, "fwd") == [(3, 114.5771, 13)]
    assert any("mixes steps that generate" in note.text for note in paste.notes)


def test_a_record_cut_inside_a_key_keeps_what_is_whole() -> None:
    [step] = steps_of("trl", "trl_deepspeed.txt")
    assert step.value("loss") == -0.0684
    assert step.value("grad_norm") is None


def test_step_time_gives_a_profile_without_phases_and_a_bar_leads_in_its_own_dict() -> None:
    paste = paste_of("trl_step_time.txt")
    assert points(paste, "step_time") == [(None, 12.05, 3), (9, 17.3, 4)]
    profile = profile_in(paste)
    assert profile.step_time.value == pytest.approx((12.05 + 17.3) / 2)
    assert booked(profile, Role.TRAINER) == {}
    assert profile.health.mixed_groups_frac == pytest.approx(1 - (0 + 0.75) / 2)


def test_a_dict_wrapped_at_80_columns_is_read_whole_with_its_lines() -> None:
    paste = paste_of("trl_wrapped.txt")
    assert points(paste, "completion_mean") == [(51, 29.0, 4)]
    assert points(paste, "reward") == [(51, 0.8279, 9)]
    assert points(paste, "kl_ref") == [(51, 1.098, 11)]


def test_the_summary_of_the_run_is_no_step() -> None:
    paste = paste_of("trl_unsloth.txt")
    assert paste.framework == "trl"
    assert paste.get_series("train_loss") is None
    assert [value for _, value, _ in points(paste, "reward")] == [0.065]


def test_a_bar_of_something_else_is_no_step() -> None:
    other = "Processed prompts: 100%|███| 64/64 [00:12<00:00,  5.11it/s]\n"
    [step] = steps_in("trl", other + "  1%|   | 2/200 [00:40<1:04:17, 20.20s/it]\n" + other)
    assert (step.number, step.value("s/it")) == (2, 20.2)


def test_profiling_times_are_booked_only_where_one_call_is_one_step() -> None:
    text = "{'loss': 0.1, 'step_time': 30.0, 'profiling/vLLM.generate': 12.0, 'profiling/compute_loss': 4.0, 'x': 1}\n"
    [step] = steps_in("trl", text)
    reading = to_reading([step], JobFacts(version=None, settings={}))
    assert reading is not None
    trainer = booked(reading.profile, Role.TRAINER)
    assert trainer[("rollout", SpanKind.EXPOSED_WAIT)] == 12.0
    assert trainer[("unattributed/compute_loss", SpanKind.BUSY)] == 4.0
    assert booked(reading.profile, Role.ROLLOUT)[("rollout", SpanKind.BUSY)] == 12.0


@pytest.mark.parametrize(
    ("key", "normal"),
    [
        ("train/reward", "reward"),
        ("profiling/Time taken: _UnslothGRPOTrainer.transformers.generate", "profiling/transformers.generate"),
        ("train/rewards/format/mean", "rewards/format/mean"),
    ],
)
def test_keys_of_metrics_files_are_the_console_keys(key: str, normal: str) -> None:
    assert normal_key(key) == normal


def test_a_notebook_table_between_pipes_is_steps() -> None:
    paste = paste_of("trl_notebook_pipes.txt")
    assert paste.framework == "trl"
    assert points(paste, "completion_mean")[:2] == [(1, 445.5, 4), (2, 389.25, 5)]
    assert [value for _, value, _ in points(paste, "reward")] == [-17.25, -10.5, 0.0, -18.75, -4.0, -17.25]
    assert points(paste, "rewards/match_format_approximately")[0] == (1, -1.25, 4)


def test_a_notebooks_bare_zero_is_not_computed_and_its_progress_is_a_mean() -> None:
    paste = paste_of("trl_notebook_tabs.txt")
    assert points(paste, "clipped_frac") == [(1, 0.5, 4), (2, 1.0, 5)]
    assert paste.get_series("is_ratio_mean") is None
    assert paste.get_series("mismatch_mean_abs") is None
    assert points(paste, "step_time") == [(20, pytest.approx(311 / 20), 2)]
    assert paste.profile is None


def test_an_evaluation_between_steps_is_no_step() -> None:
    paste = paste_of("trl_eval_between.txt")
    assert points(paste, "completion_mean") == [(None, 77.5, 2)]
    assert points(paste, "zero_std_frac") == [(None, 1.0, 5)]


def test_a_step_time_from_a_bar_is_derived() -> None:
    series = paste_of("trl_open_r1.txt").get_series("step_time")
    assert series is not None
    assert [point.status for point in series.points] == [ValueStatus.DERIVED]


def test_ms_swift_states_the_steps_number_and_a_mean_speed() -> None:
    paste = paste_of("trl_swift.txt")
    assert paste.framework == "trl"
    assert points(paste, "completion_mean") == [(1, 2067.25, 2), (2, 2774.125, 3)]
    assert points(paste, "1 / train_speed(iter/s)")[0] == (1, pytest.approx(1 / 0.010467), 2)
    assert points(paste, "s/it") == [(1, 418.21, 4)]
    assert [value for _, value, _ in points(paste, "zero_std_frac")] == [1.0, 1.0]
    assert paste.profile is None


TABLE = """Step | Training Loss | reward | reward_std | completion_length | kl
-- | -- | -- | -- | -- | --
1 | 0.000000 | -17.250000 | 1.500000 | 445.500000 | 0.000000
2 | -0.000000 | -10.500000 | 1.732051 | 389.250000"""
"""https://github.com/unslothai/unsloth/issues/2291, cut."""


@pytest.mark.parametrize(
    ("text", "lengths"),
    [
        (f"{TABLE} | 0.0\n", [445.5, 389.25]),
        # the last cell of a cut row may have lost digits
        (f"{TABLE}\n", [445.5]),
        (f"{TABLE}\nmore rows in the attachment\n", [445.5]),
        (TABLE.replace(" | ", "\t") + "\t0.00\n", [445.5, 389.25]),
    ],
)
def test_a_row_of_a_notebook_that_is_cut_keeps_its_whole_cells(text: str, lengths: list[float]) -> None:
    steps = steps_in("trl", text)
    assert [step.value("reward") for step in steps] == [-17.25, -10.5]
    assert [v for step in steps if (v := step.value("completion_length")) is not None] == lengths


def test_a_shorter_table_below_is_no_table_of_steps() -> None:
    other = "\nepoch | accuracy | rouge\n-- | -- | --\n1 | 0.5 | 0.25\n"
    assert [step.value("reward") for step in steps_in("trl", TABLE + "\n" + other)] == [-17.25, -10.5]


def test_a_record_whose_brace_was_not_copied_is_one() -> None:
    # https://github.com/modelscope/ms-swift/issues/5571
    text = (
        "'loss': -0.0, 'grad_norm': 0.0, 'reward': 0.34375, 'reward_std': 0.4397946, 'frac_reward_zero_std': 0.0, "
        "'completions/mean_length': 357.5, 'completions/clipped_ratio': 0.0, 'global_step/max_steps': '5/3766'}\n"
    )
    [step] = steps_in("trl", text)
    assert (step.number, step.value("reward"), step.value("completions/mean_length")) == (5, 0.34375, 357.5)


def test_a_record_without_braces_ends_where_other_text_begins() -> None:
    row = "'loss': 0.25, 'grad_norm': 0.5, 'global_step/max_steps': '8/900', 'train_speed(s/it)': 21.5"
    [step] = steps_in("trl", f"{row}\n--model ./m --plugin ${{HERE}}/p.py\n--lora_rank 8\n")
    assert (step.number, step.value("loss"), step.value("1 / train_speed(iter/s)")) == (8, 0.25, 21.5)


def test_a_mean_since_the_beginning_is_a_step_time_from_five_steps_on() -> None:
    row = "{{'loss': 0.25, 'grad_norm': 0.5, 'global_step/max_steps': '{}/900', 'train_speed(iter/s)': 0.05}}\n"
    assert to_reading(list(steps_in("trl", row.format(4))), JobFacts(version=None, trainer=None, settings={})) is None
    reading = to_reading(list(steps_in("trl", row.format(5))), JobFacts(version=None, trainer=None, settings={}))
    assert reading is not None
    assert reading.profile.step_time.value == pytest.approx(20.0)
    assert (reading.profile.step_time.source, reading.profile.roles) == (Source.DERIVED, ())


def iteration(number: int, ms: float, elapsed: str) -> str:
    return (
        f" [2026-03-03 16:38:36] iteration {number:8}/     624 | consumed samples: {128 * number:12} "
        f"| elapsed time per iteration (ms): {ms} | memory(GiB): 83.46 | elapsed time: {elapsed} "
        "| remaining time: 16h 12m 43s | learning rate: 9.9E-07 | loss: -2.5E-02 | reward: 7.5E-01 | reward_std: 0.52 "
        "| frac_reward_zero_std: 6.25E-02 | completions/mean_length: 4.8E+02 | grad norm: 75.173 |\n"
    )


def test_megatrons_iterations_are_steps_whose_clock_holds_the_generation(tmp_path: Path) -> None:
    log = tmp_path / "megatron.log"
    log.write_text("".join(iteration(n, 4000.0, f"{n}m {n % 60}s") for n in range(2, 8)))
    paste = read_paste([log])
    assert paste.framework == "trl"
    assert points(paste, "reward")[0] == (2, 0.75, 1)
    assert points(paste, "grad_norm")[-1] == (7, 75.173, 6)
    assert points(paste, "completion_mean")[0] == (2, 480.0, 1)
    # 4 s an iteration and 61 s on average: one generates and the others do not, so neither is the step time
    assert paste.profile is None


def test_megatrons_clock_gives_the_step_time_over_whole_cycles(tmp_path: Path) -> None:
    log = tmp_path / "megatron.log"
    log.write_text("".join(iteration(n, 4000.0, f"{n}m {n % 60}s") for n in (1, 17, 33, 49)))
    profile = profile_in(read_paste([log]))
    # 16 m 16 s for 16 iterations
    assert (profile.step_time.value, profile.step_time.source) == (61.0, Source.DERIVED)


@pytest.mark.parametrize(
    "record",
    [
        # PPO, RLOO and online DPO of trl.trainer print such dicts (huggingface/trl 0.12, ppo_trainer.py)
        "{{'eps': 2, 'objective/kl': 3.5, 'objective/entropy': 41.0, 'objective/rlhf_reward': 0.5, 'objective/scores': "
        "{score}, 'policy/approxkl_avg': 0.001, 'policy/entropy_avg': 0.75, 'loss/policy_avg': 0.01, 'lr': 1e-06, "
        "'episode': 64, 'epoch': 0.1}}\n",
        "{{'objective/kl': '3.5', 'objective/scores': '{score}', 'policy/entropy_avg': '0.75', 'episode': '64', "
        "'epoch': '0.1'}}\n",
    ],
)
def test_the_older_trainers_name_their_metrics_after_objective_and_policy(record: str, tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text(record.format(score=1.25) + record.format(score=1.5))
    paste = read_paste([log])
    assert paste.framework == "trl"
    assert [value for _, value, _ in points(paste, "reward")] == [1.25, 1.5]
    assert [value for _, value, _ in points(paste, "kl_ref")] == [3.5, 3.5]
    assert [value for _, value, _ in points(paste, "entropy")] == [0.75, 0.75]  # the sum of 41.0 is none per token
    assert paste.profile is None


def test_metrics_that_were_gathered_after_the_bars_are_no_further_steps(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    bars = "".join(f"  4%|4 | {n}/50 [00:{n * 9:02d}<07:30,  9.00s/it]\n" for n in range(1, 6))
    dicts = "".join(f"{{'loss': 0.1, 'grad_norm': 0.2, 'reward': 0.{n}, 'reward_std': 0.1}}\n" for n in range(1, 6))
    log.write_text(bars + "Traceback (most recent call last):\n" + dicts)
    paste = read_paste([log])
    assert paste.num_steps_seen == 5
    assert len(points(paste, "reward")) == 5
    log.write_text(
        "".join(bar + "\n" + record for bar, record in zip(bars.split("\n"), dicts.split("\n"), strict=True))
    )
    assert read_paste([log]).num_steps_seen == 5
