"""Fixtures that need TRL. Without it every test here is skipped, with the reason and the remedy."""

import importlib
import sys
import warnings
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from live_grpo import LiveRun, run_one_step

from steptune.core.job import JobSpec

sys.path.append(str(Path(__file__).parents[2] / "bench" / "vs_trl"))  # TRL's side of the bench: one model builder

PINNED_TRL = "1.16.0"
"""The version the baselines speak of (requirements/peers-trl.txt)."""

NOTES = pytest.StashKey[list[str]]()
"""Lines the tests want read at the end of the run."""

NO_TRL = "TRL is not installed in this environment; `make test-peers` makes one that has it"


def pytest_configure(config: pytest.Config) -> None:
    """Start the notes."""
    config.stash[NOTES] = []


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the notes."""
    for note in terminalreporter.config.stash[NOTES]:
        terminalreporter.write_line(f"note: {note}")


@pytest.fixture
def note(pytestconfig: pytest.Config) -> Callable[[str], None]:
    """Return a function that keeps a line for the end of the run."""
    return pytestconfig.stash[NOTES].append


@pytest.fixture(scope="session")
def trl() -> ModuleType:
    """Return the live library, or skip. Its metadata tells: `tests/readers/trl` imports under the same name."""
    try:
        version("trl")
    except PackageNotFoundError:
        pytest.skip(NO_TRL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what a foreign library warns of at import is not ours to fail on
        module = importlib.import_module("trl")
    assert module.__version__ == PINNED_TRL, (
        "the baselines were read from another TRL: re-check them, then move the pin"
    )
    return module


@pytest.fixture(scope="session")
def job() -> JobSpec:
    """Return the work of the example job: 32 prompts x 8 rollouts a step."""
    return JobSpec(name="peers")


@pytest.fixture(scope="session")
def live_run(trl: ModuleType, job: JobSpec, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveRun]:
    """Return what one default GRPO step on the job's work did, written down by hooks."""
    folder: Path = tmp_path_factory.mktemp("live_grpo")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield run_one_step(job, folder)
