import argparse
import json
import os
import subprocess
import sys

import pytest

from steptune import __version__
from steptune.cli.main import build_parser, main

FLAGS = {
    "diagnose": ["--help", "--html", "--json", "--only", "files"],
    "compare": ["--help", "--html", "--json", "a", "b"],
    "lint": ["--help", "--html", "--json", "files"],
    "tune": ["--advise-only", "--help", "--resume", "--runs", "--set", "job"],
    "forecast": [
        *("--async", "--device", "--fewest", "--given", "--help", "--json", "--model", "--num-devices", "--on"),
        *("--runs", "--set", "--split", "--sweep", "targets"),
    ],
    "watch": ["--every", "--help", "--json", "--once", "--stall", "targets"],
    "report": ["--help", "--json", "--pack", "--replicate", "--runs", "--trace", "--verify", "run"],
    "score": ["--help", "--json", "--plot", "--public", "runs"],
    "train": [
        *(
            "--help",
            "--resume",
            "--runs",
            "--save-every",
            "--set",
            "--state-every",
            "--steps",
            "--validate-every",
            "job",
        )
    ],
    "serve": ["--help", "--port", "folder"],
    "doctor": ["--help"],
}
"""What users have in their scripts. A flag may be added here; none is removed or renamed without a reason to them."""

HEAVY = ("torch", "pydantic", "numpy", "psutil", "yaml")


def commands() -> dict[str, argparse.ArgumentParser]:
    (group,) = [a for a in build_parser()._actions if isinstance(a, argparse._SubParsersAction)]
    return dict(group.choices)


def test_commands_and_flags_are_the_documented_ones() -> None:
    found = {
        name: sorted(option for action in parser._actions for option in (action.option_strings[-1:] or [action.dest]))
        for name, parser in commands().items()
    }
    assert found == FLAGS


def test_every_flag_is_explained_without_a_full_stop() -> None:
    for parser in commands().values():
        for action in parser._actions:
            assert action.help, action
            assert not action.help.endswith(".")


@pytest.mark.parametrize("argv", [["--help"], *([command, "--help"] for command in FLAGS)], ids=" ".join)
def test_help_exits_with_zero(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as leaving:
        main(argv)
    assert leaving.value.code == 0
    assert "usage: steptune" in capsys.readouterr().out


def test_help_of_every_command_loads_nothing_heavy() -> None:
    code = f"""
import contextlib, io, json, sys
from steptune import __version__
from steptune.cli.main import main
for argv in {[["--help"], *([command, "--help"] for command in FLAGS)]!r}:
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
        main(argv)
print(json.dumps(sorted(sys.modules)))
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    loaded = json.loads(ran.stdout)
    assert [name for name in loaded if name.split(".")[0] in HEAVY] == []
    assert sorted(name for name in loaded if name.startswith("steptune")) == [
        "steptune",
        "steptune.cli",
        "steptune.cli.main",
    ]


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as leaving:
        main(["--version"])
    assert leaving.value.code == 0
    assert capsys.readouterr().out == f"steptune {__version__}\n"


@pytest.mark.parametrize("command", FLAGS)
def test_help_of_every_command_lists_its_exit_codes(command: str) -> None:
    told = commands()[command].format_help()
    assert "exit codes: 0 " in told
    assert "2 a wrong call" in " ".join(told.split())


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["diagnose", "x", "--html", "a.html", "--html", "b.html"], "given twice: `a.html` and `b.html`"),
        (["tune", "--resume", "a", "--resume", "b"], "given twice: `a` and `b`"),
        (["tune", "job.toml", "--set", "budget"], "got `budget`; allowed: a name, `=` and a value"),
        (["forecast", "job.toml", "--set", "layout"], "got `layout`; allowed: a name, `=` and a value"),
    ],
)
def test_a_value_that_would_be_forgotten_or_is_none_is_refused(
    argv: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as leaving:
        main(argv)
    assert leaving.value.code == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("argv", [[], ["tun"], ["tune", "--resum"], ["report"], ["train", "job", "--steps", "many"]])
def test_a_wrong_call_exits_with_two(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as leaving:
        main(argv)
    assert leaving.value.code == 2
    assert "usage: steptune" in capsys.readouterr().err
