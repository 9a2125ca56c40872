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
    assert main(["forecast", str(script), "--device", "RTX 4090", "--model", "Qwen/Qwen2.5-14B"]) == 1
    out = capsys.readouterr().out
    assert "does not fit" in out
    assert "fits with" in out


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ([], "--device"),
        (["--device", "H9000"], "H9000"),
        (["--device", "H100", "--model", "Qwen9-1B"], "Qwen9-1B"),
        (["--device", "H100", "--model", "missing/config.json"], "no model configuration"),
    ],
)
def test_what_is_missing_is_said_in_one_sentence(
    script: Path, flags: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["forecast", str(script), *flags]) == 1
    assert said in capsys.readouterr().err


def test_settings_can_be_changed_in_the_frameworks_own_spelling(
    script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    longer = ["--set", "data.max_response_length=60000", "--set", "actor_rollout_ref.model.use_fused_kernels=False"]
    assert main(["forecast", str(script), "--device", "H100", *longer]) == 1
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
