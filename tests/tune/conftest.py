import tempfile
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _a_machine_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine lock lies in the folder for temporary files; tests must not wait for a real measurement."""
    folder = tmp_path / "machine"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))


@pytest.fixture(autouse=True)
def _code_that_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions name the code that made them; an editor saving a file meanwhile is not what these tests are about."""
    for module in ("steptune.tune.session", "steptune.tune.verify"):
        monkeypatch.setattr(f"{module}.code_hash", lambda: "c0de")
