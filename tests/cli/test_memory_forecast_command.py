import json
from pathlib import Path

import pytest

from steptune.cli.main import main

CONFIG = """python3 -m verl.trainer.main_ppo \\
    algorithm.adv_estimator=grpo \\
    data.max_prompt_length=1024 \\
    data.max_response_length=3072 \\
    actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct \\
    actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=2 \\
    actor_rollout_ref.rollout.gpu_memory_utilization=0.6 \\
    trainer.n_gpus_per_node=8
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "run.sh"
    path.write_text(CONFIG)
    return path


def test_a_configuration_gets_its_table_of_bytes(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["forecast", str(script), "--device", "H100"]) == 0
    out = capsys.readouterr().out
    assert "memory     fits" in out
    for word in ("rollout", "logprob", "train", "sync", "arXiv 1910.02054", "79.1 GiB"):
        assert word in out


def test_a_job_that_does_not_fit_is_told_what_would(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["forecast", str(script), "--device", "RTX 4090", "--model", "Qwen/Qwen2.5-14B"]) == 3
    out = capsys.readouterr().out
    assert "does not fit" in out
    assert "fits with" in out


@pytest.mark.parametrize(
    ("flags", "said", "code"),
    [
        ([], "--device", 2),
        (["--device", "H9000"], "H9000", 2),
        (["--device", "H100", "--num-devices", "0"], "--num-devices", 2),
        (["--device", "H100", "--model", "Qwen9-1B"], "got `Qwen9-1B`; allowed: ", 2),
        (["--device", "H100", "--model", "Qwen9-1B"], ", qwen2.5-7b, ", 2),
        (["--device", "H100", "--model", "missing/config.json"], "no model configuration", 1),
    ],
)
def test_what_is_missing_is_said_in_one_sentence(
    script: Path, flags: list[str], said: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["forecast", str(script), *flags]) == code
    assert said in capsys.readouterr().err


def test_settings_can_be_changed_in_the_frameworks_own_spelling(
    script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    longer = ["--set", "data.max_response_length=60000", "--set", "actor_rollout_ref.model.use_fused_kernels=False"]
    assert main(["forecast", str(script), "--device", "H100", *longer]) == 3
    assert "does not fit" in capsys.readouterr().out


def test_json_has_every_figure_with_its_source(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["forecast", str(script), "--device", "H100", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["answer"] == "fits"
    assert {phase["phase"] for phase in answer["phases"]} == {"rollout", "logprob", "train", "step", "sync"}
    for phase in answer["phases"]:
        assert all(term["note"] and term["source"] == "forecast" for term in phase["terms"].values())


def test_a_file_without_settings_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "note.txt").write_text("hello\n")
    assert main(["forecast", str(tmp_path / "note.txt"), "--device", "H100"]) == 1
    assert "no settings" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("setting", "hint"),
    [
        ("nonsense=3", "spell it as the framework does"),
        ("data.max_respons_length=9", "did you mean `data.max_response_length`"),
        ("max_response_length=9", "did you mean `data.max_response_length`"),
        ("trainer.total_epochs=3", "does not change the bytes"),
    ],
)
def test_a_setting_that_the_count_does_not_read_is_refused(
    script: Path, setting: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["forecast", str(script), "--device", "H100", "--set", setting]) == 2
    captured = capsys.readouterr()
    assert not captured.out
    assert f"got `{setting.partition('=')[0]}`; allowed: " in captured.err
    assert "data.max_prompt_length" in captured.err
    assert hint in captured.err


@pytest.mark.parametrize(
    ("setting", "allowed"),
    [
        ("actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=abc", "a whole number of 1 or more"),
        ("actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=-2", "a whole number of 1 or more"),
        ("trainer.nnodes=1.5", "a whole number of 1 or more"),
        ("actor_rollout_ref.rollout.gpu_memory_utilization=60", "up to 1"),
        ("actor_rollout_ref.rollout.gpu_memory_utilization=0", "a number above 0"),
        ("actor_rollout_ref.actor.fsdp_config.param_offload=maybe", "true or false"),
        ("actor_rollout_ref.actor.fsdp_config.model_dtype=int9000x", "bfloat16"),
        ("actor_rollout_ref.model.lora_rank=-8", "0 or -1 for none"),
    ],
)
def test_a_value_that_a_setting_cannot_have_is_refused_and_no_default_takes_its_place(
    script: Path, setting: str, allowed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["forecast", str(script), "--device", "H100"]
    key, _, value = setting.partition("=")
    head, *rest = CONFIG.splitlines()
    in_file = "\n".join([head, f"    {setting} \\", *(line for line in rest if f"{key}=" not in line)])
    for code, flags, text in ((2, ["--set", setting], CONFIG), (1, [], in_file)):
        script.write_text(text)
        assert main([*asked, *flags]) == code
        captured = capsys.readouterr()
        assert not captured.out
        assert f"`{key}` has no such value, got `{value}" in captured.err
        assert allowed in captured.err


@pytest.mark.parametrize("value", ["null", "None", "auto"])
def test_a_setting_left_to_its_framework_has_the_default(
    script: Path, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["forecast", str(script), "--device", "H100"]
    assert main(asked) == 0
    plain = capsys.readouterr().out
    assert main([*asked, "--set", f"actor_rollout_ref.rollout.max_num_seqs={value}"]) == 0
    assert capsys.readouterr().out == plain


def test_devices_that_contradict_the_settings_are_refused_and_named(
    script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["forecast", str(script), "--device", "H100", "--num-devices"]
    assert main([*asked, "8"]) == 0
    assert main([*asked, "1"]) == 2
    assert "`--num-devices 1` and `trainer.n_gpus_per_node` 8" in capsys.readouterr().err


def test_devices_that_the_settings_leave_to_a_variable_are_taken(
    script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script.write_text(CONFIG.replace("n_gpus_per_node=8", "n_gpus_per_node=$GPUS"))
    assert main(["forecast", str(script), "--device", "H100", "--num-devices", "4"]) == 0
    assert "trainer    4 devices" in capsys.readouterr().out


def test_a_logs_work_beside_a_configuration_names_both_ways(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["forecast", str(script), "--device", "H100", "--set", "group_size=4"]) == 2
    err = capsys.readouterr().err
    assert "`--set group_size` asks about the step of a log with phase times" in err
    assert "a configuration (its memory)" in err


def test_flags_of_a_configuration_are_not_ignored_beside_a_job(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["forecast", "job.toml", "--device", "H100"]) == 2
    assert "`--device` is for a configuration or a log" in capsys.readouterr().err
