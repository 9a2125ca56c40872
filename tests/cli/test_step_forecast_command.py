"""`steptune forecast LOG` with a question: the command line, its exit codes, JSON and what it must not show."""

import json
from pathlib import Path

import pytest

from steptune.cli.main import main
from steptune.forecast.ask.answer import StepAnswer

POSTS = Path(__file__).parents[1] / "pasted" / "fixtures"
V22 = str(POSTS / "V22.txt")


def test_the_same_job_on_fewer_devices_is_answered_in_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["forecast", V22, "--on", "8"]) == 0
    out = capsys.readouterr().out
    for said in (
        "the same job on 8 devices",
        "5 h 14 m (measured, n=1), on 16 devices that take turns",
        "80 % interval",
        "3 free parameters",
        "V22.txt:8 timing_s/gen",
        "--given group_size=N",
        "whether it fits in memory",
    ):
        assert said in out


def test_json_is_the_record_with_its_schema_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["forecast", V22, "--split", "12:4", "--async", "2", "--json"]) == 0
    held = json.loads(capsys.readouterr().out)
    assert held.pop("schema_version") == 1
    answer = StepAnswer.model_validate(held)
    assert answer.configuration.train_devices == 12
    assert answer.step_time.source == "forecast"
    assert 0 < max(row.lag for row in answer.lag) <= 2


def test_a_given_fact_counts_as_stated(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["forecast", V22, "--on", "8", "--given", "group_size=8", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert "group_size" not in {row["what"] for row in answer["unknown"]}


def test_a_sweep_prints_a_table_and_the_first_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["forecast", V22, "--sweep", "--async", "1"]) == 0
    out = capsys.readouterr().out
    assert "fastest first" in out
    assert out.count("device-s") >= 4


def test_other_work_alone_is_a_question_about_a_log(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["forecast", V22, "--set", "group_size=4"]) == 0
    assert "the same job on 16 devices, group_size 4" in capsys.readouterr().out


@pytest.mark.parametrize("flags", [["--fewest"], ["--on", "16"], ["--sweep", "--async", "1"]])
def test_the_measured_configuration_is_said_to_be_measured(
    flags: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["forecast", V22, *flags, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    itself = [row for row in (answer, *answer["ranking"]) if row["configuration"] == answer["measured_configuration"]]
    assert itself
    assert {row[name]["source"] for row in itself for name in ("step_time", "ratio")} == {"measured"}
    assert main(["forecast", V22, *flags]) == 0
    out = capsys.readouterr().out
    assert "as measured" in out if answer["ranking"] else "5 h 14 m (measured, n=1)\nratio      1.00 x (the" in out


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--on", "0"], "--on"),
        (["--async", "-1"], "--async"),
        (["--split", "12"], "TRAIN:ROLLOUT"),
        (["--split", "8:8", "--on", "8"], "--split"),
        (["--fewest", "--sweep"], "one question at a time"),
        (["--on", "8", "--device", "H100"], "for memory"),
        (["--on", "8", "--set", "micro_batch=4"], "one total per side cannot price"),
        (["--on", "8", "--set", "group_size=0"], "group_size"),
        (["--given", "group=8"], "did you mean `group_size`"),
        (["--given", "clipped_frac=1.5"], "a part below 1"),
        (["--given", "completion_mean=nan"], "nan"),
    ],
)
def test_a_wrong_question_is_a_wrong_call(flags: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["forecast", V22, *flags]) == 2
    assert said in capsys.readouterr().err


def test_a_log_that_cannot_be_answered_from_ends_in_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["forecast", str(POSTS / "S02.txt"), "--on", "8"]) == 1
    err = capsys.readouterr().err
    assert "no phase times of training" in err
    assert "--use-tensorboard" in err


def test_a_job_file_is_no_log(capsys: pytest.CaptureFixture[str]) -> None:
    job = Path(__file__).parents[2] / "examples" / "math-dense.toml"
    assert main(["forecast", str(job), "--on", "8"]) == 2
    assert "pasted log" in capsys.readouterr().err


def test_two_jobs_at_a_time_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["forecast", "a.toml", "b.toml"]) == 2
    assert "one job or run at a time" in capsys.readouterr().err


def test_devices_that_contradict_the_log_are_refused_and_both_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["forecast", V22, "--on", "8", "--num-devices", "16"]) == 0
    assert main(["forecast", V22, "--on", "8", "--num-devices", "4"]) == 2
    err = capsys.readouterr().err
    assert "`--num-devices 4` and 16 (V22.txt:" in err
    assert "`--on`" in err


def test_a_home_folder_in_a_path_is_not_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "home" / "jane.doe"
    folder.mkdir(parents=True)
    (folder / "run.log").write_text(Path(V22).read_text().replace("# fact: gpus=16", ""))
    asked = ["forecast", str(folder / "run.log"), "--on", "8", "--num-devices", "16"]
    assert main(asked) == 0
    text = capsys.readouterr().out
    assert main([*asked, "--json"]) == 0
    assert "jane.doe" not in text + capsys.readouterr().out


def test_devices_that_the_log_lacks_can_be_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run.log").write_text(Path(V22).read_text().replace("# fact: gpus=16", ""))
    assert main(["forecast", str(tmp_path / "run.log"), "--on", "8"]) == 1
    assert "--num-devices N" in capsys.readouterr().err
    assert main(["forecast", str(tmp_path / "run.log"), "--on", "8", "--num-devices", "16"]) == 0
