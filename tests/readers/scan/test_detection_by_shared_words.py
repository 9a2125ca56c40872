"""Which framework, where words of another one stand in the same text."""

from pathlib import Path

import pytest

from steptune.readers.read_paste import read_paste

TELLING = [
    # a table of verl's timers beside a setting that TRL has too
    (
        "verl",
        "max_prompt_length: 2048\ngradient_accumulation_steps: 4\n\n| phase | s |\n|--|--|\n| update_actor | 40 s |\n",
    ),
    ("verl", "max_prompt_length: 512\nuse_remove_padding: true\n"),
    ("verl", "log_prob_max_token_len_per_gpu: 8192\nmax_prompt_length: 512\n"),
    ("skyrl", "Finished: 'generate', time cost: 31.20s\nmax_prompt_length: 4096\n"),
    ("skyrl", "max_prompt_length: 512\nray::MegatronPolicyWorkerBase.ppo_train() (pid=7)\n"),
    # named by the image only
    ("prime_rl", 'image: "primeintellect/prime-rl:v0.4"\ntorch.OutOfMemoryError: CUDA out of memory.\n'),
    ("verl", "docker run --gpus all verlai/verl:vllm011.latest\nCUDA out of memory\n"),
    ("slime", "FROM slimerl/slime:nightly-dev\nRuntimeError: out of memory\n"),
    ("nemo_rl", "srun --container-image=nvcr.io#nvidia/nemo-rl:v0.4.0 bash\nCUDA out of memory\n"),
    # shared words alone are Hugging Face's trainer's
    ("trl", "gradient_accumulation_steps: 8\nmax_prompt_length: 512\n"),
]


@pytest.mark.parametrize(("name", "text"), TELLING)
def test_words_that_frameworks_share_weigh_less_than_own_ones(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / "post.txt"
    path.write_text(text)
    assert read_paste([path]).framework == name


def test_a_link_to_another_project_names_no_framework(tmp_path: Path) -> None:
    path = tmp_path / "post.txt"
    path.write_text("same as https://github.com/verl-project/verl/issues/302: hangs\nCUDA out of memory\n")
    assert read_paste([path]).framework is None


def test_a_supervised_metrics_file_gives_its_losses(tmp_path: Path) -> None:
    path = tmp_path / "logging.jsonl"
    rows = (
        '{{"loss": {0}, "grad_norm": 1.5, "learning_rate": 1e-05, "token_acc": 0.5, "global_step/max_steps": "{1}/90"}}'
    )
    path.write_text("".join(rows.format(3.5 - n, n + 1) + "\n" for n in range(3)))
    loss = read_paste([path]).get_series("loss")
    assert loss is not None
    assert [(p.step, p.value) for p in loss.points] == [(1, 3.5), (2, 2.5), (3, 1.5)]


def test_a_preference_run_counts_its_steps_by_another_name(tmp_path: Path) -> None:
    path = tmp_path / "trainer_log.jsonl"
    row = '{{"current_steps": {}, "total_steps": 40, "loss": 0.5, "accuracy": 0.75, "lr": 1e-06, "percentage": 2.5}}\n'
    path.write_text(row.format(5) + row.format(10))
    paste = read_paste([path])
    assert {s.name for s in paste.series} == {"loss", "lr", "accuracy"}
    assert [p.step for p in paste.series[0].points] == [5, 10]
    assert paste.get_series("reward") is None


def test_a_remark_behind_a_timer_in_a_table_is_no_part_of_its_name(tmp_path: Path) -> None:
    path = tmp_path / "post.md"
    rows = "| gen (vLLM, TP 2) | 20 s |\n| ref_log_prob | 5 s |\n| update_actor [FSDP] | 30 s |\n"
    rows += "| **Total** | **~60s** |\n"
    path.write_text("verl:\n\n| phase | time |\n|--|--|\n" + rows)
    profile = read_paste([path]).profile
    assert profile is not None
    keys = {p.origin.key for role in profile.roles for p in role.phases if p.origin}
    assert profile.step_time.value == 60
    assert {"timing_s/gen", "timing_s/ref", "timing_s/update_actor"} <= keys


@pytest.mark.parametrize(
    "text",
    [
        # ROLL, beside names of slime's and TRL's
        "rollout_batch_size: 32\nresponse_length: 4096\nnum_return_sequences_in_group: 8\nppo_epochs: 1\n",
        "rollout_batch_size: 32\nactor_infer:\n  strategy_args:\n    strategy_name: vllm\n",
        # RLinf
        "runner:\n  task_type: embodied\n  max_steps: -1\nrollout_batch_size: 32\n",
    ],
)
def test_a_configuration_of_a_framework_without_a_reader_is_nobodys(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    paste = read_paste([path])
    assert paste.framework is None
    assert paste.settings
