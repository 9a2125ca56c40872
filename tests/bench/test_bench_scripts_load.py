"""No test runs a bench to its end, so a moved name would show on the day of a measurement: here they are loaded."""

import runpy
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"
PEERS = {"transformers", "trl", "aiconfigurator"}
"""Packages that only peers' environments have."""


@pytest.mark.parametrize("script", sorted(BENCH.glob("*.py")), ids=lambda path: path.name)
def test_a_bench_finds_every_name_it_imports(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(BENCH), *sys.path])
    monkeypatch.setattr(sys, "argv", [str(script)])
    try:
        runpy.run_path(str(script), run_name="bench_loaded")
    except ModuleNotFoundError as error:
        if error.name not in PEERS:
            raise
        pytest.skip(f"{script.name} needs {error.name}, which is in an environment of its own (make test-peers)")
