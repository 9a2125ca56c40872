import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from steptune.cli.main import main

JOB = """
name = "tiny"
framework = "fake"
"""


@pytest.fixture(autouse=True)
def _a_place_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs go to the test's own folder, and the machine lock must not wait for a real measurement."""
    folder = tmp_path / "machine"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.chdir(tmp_path)


@pytest.fixture(autouse=True)
def _code_that_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions name the code that made them; an editor saving a file meanwhile is not what these tests are about."""
    for module in ("steptune.tune.session", "steptune.tune.verify"):
        monkeypatch.setattr(f"{module}.code_hash", lambda: "c0de")


@pytest.fixture
def job_file(tmp_path: Path) -> Callable[[str], str]:
    """Writes a job on the fake framework with more TOML after it; returns its path."""

    def write(more: str = "") -> str:
        path = tmp_path / "job.toml"
        path.write_text(JOB + more)
        return str(path)

    return write


@pytest.fixture
def tuned_run(job_file: Callable[[str], str], capsys: pytest.CaptureFixture[str]) -> Path:
    """A finished run folder, made by `steptune tune`."""
    assert main(["tune", job_file("")]) == 0
    capsys.readouterr()
    (folder,) = Path("runs").glob("tiny-*")
    return folder
