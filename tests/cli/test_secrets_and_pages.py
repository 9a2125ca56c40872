"""Keys never reach stdout, stderr or a page; a page never replaces an input."""

import os
from pathlib import Path

import pytest

from steptune.cli.main import main

KEY = "0123456789abcdef0123456789abcdef01234567"
SCRIPT = (
    f"python3 -m openrlhf.cli.train_ppo_ray --use_wandb {KEY} --train_batch_size 128 "
    "--rollout_batch_size 100 --n_samples_per_prompt 8\n"
)
LOG = "step:1 - timing_s/step:10.0\nstep:2 - timing_s/step:11.0\n"


@pytest.fixture
def script() -> Path:
    path = Path("ow.sh")
    path.write_text(SCRIPT)
    return path


@pytest.mark.parametrize("flags", [(), ("--json",)])
@pytest.mark.parametrize("command", ["lint", "diagnose"])
def test_a_script_with_a_key_is_answered_without_it(
    command: str, flags: tuple[str, ...], script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main([command, str(script), *flags, "--html", "out.html"])
    said = capsys.readouterr()
    assert "use_wandb" in said.out
    for output in (said.out, said.err, Path("out.html").read_text()):
        assert KEY not in output


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_a_comparison_does_not_show_a_key(
    flags: tuple[str, ...], script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("b.sh").write_text(SCRIPT.replace(KEY, KEY[::-1]))
    main(["compare", str(script), "b.sh", *flags, "--html", "out.html"])
    said = capsys.readouterr()
    for output in (said.out, said.err, Path("out.html").read_text()):
        assert KEY not in output
        assert KEY[::-1] not in output


def test_a_key_typed_by_mistake_is_not_echoed(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    token = "hf_abcdefGHIJKLmnop1234"
    assert main(["lint", token]) == 1
    with pytest.raises(SystemExit):
        main(["lint", str(script), "--wandb_key", KEY])
    said = capsys.readouterr().err
    assert token not in said
    assert KEY not in said


@pytest.mark.parametrize("page", ["run.log", "./run.log", "link.log", "hard.log"])
@pytest.mark.parametrize("call", [("diagnose", "run.log"), ("lint", "run.log"), ("compare", "other.log", "run.log")])
def test_a_page_never_replaces_an_input(call: tuple[str, ...], page: str, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("run.log", "other.log"):
        Path(name).write_text(LOG)
    Path("link.log").symlink_to("run.log")
    os.link("run.log", "hard.log")
    assert main([*call, "--html", page]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert f"would overwrite an input, got `{page}`; allowed: a file that is not read; hint: " in said.err
    assert Path("run.log").read_text() == LOG


def test_files_of_an_input_folder_are_inputs_but_an_earlier_page_in_it_is_not() -> None:
    Path("job").mkdir()
    Path("job/run.log").write_text(LOG)
    assert main(["diagnose", "job", "--html", "job/run.log"]) == 2
    assert Path("job/run.log").read_text() == LOG
    for _ in range(2):
        assert main(["diagnose", "job", "--html", "job/answer.html"]) == 0
    assert main(["diagnose", "job/answer.html", "--html", "job/answer.html"]) == 2
