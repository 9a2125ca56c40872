"""Where the output goes: a full disk, a closed stream, a reader that went away, a standard error that is gone."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from steptune.cli.streams import say

FULL = Path("/dev/full")
LOG = "step:1 - timing_s/step:10.0\nstep:2 - timing_s/step:11.0\n"
CALLS = (["--help"], ["--version"], ["doctor"], ["diagnose", "run.log"], ["lint", "run.log", "--json"])


def ran(argv: list[str], shell: str) -> subprocess.CompletedProcess[str]:
    Path("run.log").write_text(LOG)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUNBUFFERED": ""}
    command = f"{sys.executable} -m steptune.cli.main {' '.join(argv)} {shell}"
    return subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, env=environment)


@pytest.mark.skipif(not FULL.exists(), reason="this system has no full device")
@pytest.mark.parametrize("argv", CALLS, ids=" ".join)
def test_a_full_disk_is_named_and_exits_with_one(argv: list[str]) -> None:
    done = ran(argv, f">{FULL}")
    assert done.returncode == 1
    assert done.stderr.startswith("steptune: the output cannot be written, got No space left on device; allowed: ")
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


@pytest.mark.parametrize("argv", CALLS, ids=" ".join)
def test_a_closed_standard_output_is_named_and_exits_with_one(argv: list[str]) -> None:
    done = ran(argv, ">&-")
    assert done.returncode == 1
    assert done.stderr.startswith("steptune: the output cannot be written, got a closed stream; allowed: ")


@pytest.mark.parametrize("argv", CALLS[2:], ids=" ".join)
def test_a_reader_that_went_away_is_no_error(argv: list[str]) -> None:
    done = ran(argv, "| true; exit ${PIPESTATUS[0]}")
    assert (done.returncode, done.stderr) == (ran(argv, "").returncode, ran(argv, "").stderr)


def test_talk_without_a_standard_error_is_not_taken_for_data() -> None:
    done = ran(["diagnose", "nowhere"], "2>&-")
    assert (done.returncode, done.stdout) == (1, "")


def test_talk_hides_keys_and_shortens_the_home_folder(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/alice")
    say("trial died: HF_TOKEN=abcdef12345 in /home/alice/runs/x and /home/bob/y")
    assert capsys.readouterr().err == "trial died: HF_TOKEN=[redacted] in ~/runs/x and /home/[user]/y\n"
