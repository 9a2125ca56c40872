from fixture_steps import booked, paste_of, points, profile_in, steps_in, steps_of

from steptune.core.phase import Role, SpanKind
from steptune.readers.facts import JobFacts
from steptune.readers.skyrl.profile import to_reading


def test_fragments_of_three_steps_are_not_mixed() -> None:
    finished, told, unfinished = steps_of("skyrl", "skyrl_fragments.txt")
    assert {k: r.value for k, r in finished.readings.items()} == {"timing/step": 288.78}
    assert finished.is_cut
    assert (told.value("timing/step"), told.value("timing/generate")) == (286.05, 27.65)
    assert {k: r.value for k, r in unfinished.readings.items()} == {"timing/generate": 45.11}


def test_the_profile_is_of_the_step_that_is_whole() -> None:
    paste = paste_of("skyrl_fragments.txt")
    assert paste.framework == "skyrl"
    profile = profile_in(paste)
    assert (profile.step_time.value, profile.num_steps) == (286.05, 1)
    trainer = booked(profile, Role.TRAINER)
    assert trainer[("train", SpanKind.BUSY)] == 191.74
    assert trainer[("old_logprob", SpanKind.BUSY)] == 47.4
    assert trainer[("rollout", SpanKind.EXPOSED_WAIT)] == 27.65
    assert (profile.work.prompts_per_step, profile.work.group_size) == (16, 8)
    assert points(paste, "padded_len") == [(None, 2435.0, 9)]
    assert points(paste, "reward") == [(None, -0.06094937803135128, 8)]


def test_a_markdown_table_in_hours_and_minutes_is_a_mean_step() -> None:
    paste = paste_of("skyrl_table.txt")
    assert paste.framework == "skyrl"
    profile = profile_in(paste)
    assert profile.step_time.value == 9 * 3600 + 23
    assert booked(profile, Role.ROLLOUT)[("rollout", SpanKind.BUSY)] == 5 * 3600 + 26 * 60
    assert booked(profile, Role.TRAINER)[("train", SpanKind.BUSY)] == 2 * 3600 + 51 * 60
    origin = next(p.origin for p in profile.roles[0].phases if p.phase == "old_logprob")
    assert origin is not None
    assert (origin.line, origin.key) == (8, "timing/fwd_logprobs_values_reward")


CONSOLE = """\
2026-06-15 13:20:00.001 | INFO     | skyrl.train.trainer:train:237 - Finished: 'generate', time cost: 27.65s
2026-06-15 13:24:42.955 | INFO     | skyrl.train.trainer:train:220 - Finished: 'step', time cost: 286.05s
2026-06-15 13:24:43.000 | INFO     | skyrl.train.utils.tracking:log:190 - Step 12:
{'generate/avg_num_tokens': '1802.1250',
 'policy/rollout_train_logprobs_abs_diff_mean': '0.0112',
 'timing/critic_train': '40.0000',
 'timing/generate': '27.6521',
 'timing/policy_train': '151.7400',
 'timing/step': '286.0489',
 'timing/train_critic_and_policy': '192.1000',
 'trainer/global_step': 12}
"""
"""The format of the console tracker (SkyRL a956457, skyrl/train/utils/tracking.py): pprint sorts and wraps the dict."""


def test_a_step_told_twice_counts_once_with_the_finer_numbers() -> None:
    [step] = steps_in("skyrl", CONSOLE)
    assert (step.number, step.value("timing/step"), step.value("timing/generate")) == (12, 286.0489, 27.6521)
    assert step.readings["timing/step"].line == 9


def test_parts_of_training_are_inside_the_outer_timer_where_it_is_printed() -> None:
    reading = to_reading(steps_in("skyrl", CONSOLE), JobFacts(version=None, settings={}))
    assert reading is not None
    trainer = booked(reading.profile, Role.TRAINER)
    assert trainer[("train", SpanKind.BUSY)] == 192.1
    assert trainer[("train/policy", SpanKind.BUSY)] == 151.74


def test_waiting_for_the_generation_buffer_is_a_wait() -> None:
    text = "'timing/step': '100.0', 'timing/wait_for_generation_buffer': '30.0', 'timing/run_training': '60.0'\n"
    reading = to_reading(steps_in("skyrl", text), JobFacts(version=None, settings={}))
    assert reading is not None
    assert reading.profile.schedule == "async"
    assert booked(reading.profile, Role.TRAINER) == {
        ("rollout", SpanKind.EXPOSED_WAIT): 30.0,
        ("train", SpanKind.BUSY): 60.0,
    }
    assert reading.profile.role(Role.ROLLOUT) is None


def test_a_table_row_without_a_second_cell_is_passed_over() -> None:
    [step] = steps_in("skyrl", "timing/step = 9h00m23s\n| `generate` |\n| `generate` | 5h26m |\n")
    assert step.value("timing/generate") == 19560.0


def loguru(text: str) -> str:
    return f"(skyrl_entrypoint pid=8455) 2026-03-26 14:45:00.969 | INFO     | skyrl.train.trainer:train:665 - {text}\n"


def test_what_loguru_says_of_the_batch_belongs_to_the_step_in_progress() -> None:
    text = (
        loguru("batch_num_seq: 5120, batch_padded_seq_len: 1172")
        + loguru("avg_final_rewards: 0.13398437201976776, avg_response_length: 273.6802734375")
        + loguru("Finished: 'policy_train', time cost: 866.49s")
        + loguru("Finished: 'step', time cost: 1331.13s")
        + loguru("batch_num_seq: 5120, batch_padded_seq_len: 1024")
    )
    first, second = steps_in("skyrl", text)
    assert (first.value("batch_padded_seq_len"), first.value("batch_num_seq")) == (1172, 5120)
    assert (first.value("generate/avg_num_tokens"), first.value("timing/step")) == (273.6802734375, 1331.13)
    # with a penalty in it: not the raw reward
    assert first.value("reward/avg_final_rewards") == 0.13398437201976776
    assert first.value("reward/avg_raw_reward") is None
    assert second.value("batch_padded_seq_len") == 1024


def test_the_older_trainer_says_the_same_without_a_prefix() -> None:
    head = "2025-10-01 10:00:00.1 | INFO | skyrl_train.trainer:train:400 - "
    [step] = steps_in("skyrl", f"{head}batch_num_seq: 64, batch_padded_seq_len: 10389\n")
    assert step.value("batch_padded_seq_len") == 10389
