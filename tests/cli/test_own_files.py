"""Steptune's own jobs and run folders are no logs: they are named, with the commands that take them."""

from pathlib import Path

import pytest

from steptune.cli.main import main
from steptune.cli.own_files import is_job

EXAMPLE = Path(__file__).parents[2] / "examples" / "math-dense.toml"


@pytest.mark.parametrize("command", ["diagnose", "lint"])
def test_a_job_file_alone_is_a_wrong_call_that_names_what_takes_it(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, str(EXAMPLE)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "is a steptune job file" in said.err
    assert "`steptune tune " in said.err


def test_a_job_file_is_no_side_of_a_comparison(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(EXAMPLE), str(EXAMPLE)]) == 2
    assert "is a steptune job file" in capsys.readouterr().err


def test_beside_a_log_a_job_file_is_left_out_and_named(capsys: pytest.CaptureFixture[str]) -> None:
    Path("run.log").write_text("step:1 - timing_s/step:10.0\nstep:2 - timing_s/step:11.0\n")
    assert main(["diagnose", "run.log", str(EXAMPLE)]) == 0
    said = capsys.readouterr()
    assert "is left out" in said.err
    assert "0 settings" in said.out or "setting" not in said.out.split("\n")[2]


@pytest.mark.parametrize(
    "text",
    [
        'max_steps = 5\n[model]\nname = "Qwen/Qwen3-8B"\n',
        'name = "x"\n[model]\nname = "y"\n[trainer]\nlr = 1\n',
        'name = "x"\n',
        "name = \n",
    ],
)
def test_a_framework_s_own_toml_is_no_job(text: str, tmp_path: Path) -> None:
    path = tmp_path / "rl.toml"
    path.write_text(text)
    assert not is_job(path)


def test_the_example_is_a_job() -> None:
    assert is_job(EXAMPLE)


def test_a_run_folder_is_for_the_report(tuned_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", str(tuned_run)]) == 2
    assert "is a steptune run folder" in (said := capsys.readouterr().err)
    assert "hint: `steptune report " in said
    Path("run.log").write_text("step:1 - timing_s/step:10.0\nstep:2 - timing_s/step:11.0\n")
    assert main(["diagnose", "run.log", str(tuned_run)]) == 0
    assert capsys.readouterr().err.count("is left out") == 1
