"""What a job's runs begin with is made before the budget's clock starts: it is not tuning."""

from pathlib import Path

import pytest
from fake_sessions import SteppingClock, job_of, quiet

from steptune.core.job import JobSpec
from steptune.testing.fake_framework import FakeFramework
from steptune.testing.fake_space import PACKING
from steptune.tune import budget
from steptune.tune.session import TuneOptions, start_session


class Preparing(FakeFramework):
    """Notes what happened first."""

    seen: list[str]

    def prepare(self, job: JobSpec) -> None:
        self.seen.append(f"prepared {job.name}")


def test_the_start_is_made_before_the_budgets_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    framework = Preparing(knob_table=(PACKING,))
    framework.seen = []
    started = budget.Budget.__post_init__

    def noted(self: budget.Budget) -> None:
        framework.seen.append("budget started")
        started(self)

    monkeypatch.setattr(budget.Budget, "__post_init__", noted)
    start_session(job_of(), framework, TuneOptions(root=tmp_path), SteppingClock(), quiet)
    assert framework.seen[:2] == ["prepared fake", "budget started"]
