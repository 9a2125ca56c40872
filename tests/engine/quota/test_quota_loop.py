"""A run with a split: the trainer's process gets its share and gives it back, the rollout's limits itself."""

import sys
from pathlib import Path

import pytest

from steptune.core.errors import JobError
from steptune.engine.quota import limit

sys.path.insert(0, str(Path(__file__).parents[1]))
from loop_cases import small_job, small_loop


class FakeQuota:
    """Remembers what it was asked for; a real one could stop the test's own process."""

    asked: list[float] = []
    num_released = 0

    def release(self) -> None:
        FakeQuota.num_released += 1


def fake_group(version: int, cores: float) -> FakeQuota:
    FakeQuota.asked.append(cores)
    return FakeQuota()


def test_a_split_run_trains_and_gives_the_cores_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limit, "_in_group", fake_group)
    loop = small_loop(
        small_job(), tmp_path, schedule="one_step_off", correction="tis", rollout_cores=0.75, train_threads=2
    )
    steps = [loop.step() for _ in range(3)]
    assert FakeQuota.asked == [1.25]
    loop.close()
    assert FakeQuota.num_released == 1
    assert [step.lag_max for step in steps] == [0, 1, 1]


def test_a_split_of_a_synchronous_run_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="two processes"):
        small_loop(small_job(), tmp_path, rollout_cores=0.75, train_threads=2)
