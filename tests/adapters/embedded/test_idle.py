"""Tests for `adapters.embedded.idle`."""

from pathlib import Path

import pytest

from steptune.adapters.embedded import framework
from steptune.adapters.embedded.framework import EmbeddedFramework
from steptune.adapters.embedded.idle import ASLEEP, SHORT_SPIN, is_crowded, threads_at_work, waiting
from steptune.core.framework import LaunchSpec
from steptune.core.job import AlgorithmSpec, JobSpec, MathWorkload
from steptune.core.model import DenseModel
from steptune.engine.knobs import EngineKnobs


def test_sides_that_take_turns_need_the_cores_of_the_larger_and_sides_that_overlap_of_both() -> None:
    assert threads_at_work(EngineKnobs(rollout_threads=2, train_threads=1)) == 2
    assert threads_at_work(EngineKnobs(schedule="async", max_lag=1, rollout_threads=1, train_threads=1)) == 2
    assert threads_at_work(EngineKnobs(rollout_replicas=2, rollout_threads=2)) == 4
    assert threads_at_work(EngineKnobs(train_ranks=2, train_threads=2)) == 4


def test_it_is_crowded_where_cores_are_short_and_under_a_quota() -> None:
    overlapped = EngineKnobs(schedule="one_step_off", rollout_threads=1, train_threads=1)
    assert not is_crowded(overlapped, 2)
    assert is_crowded(overlapped, 1)
    assert is_crowded(overlapped.model_copy(update={"rollout_cores": 0.5}), 2)


@pytest.mark.parametrize("name", ["OMP_WAIT_POLICY", "GOMP_SPINCOUNT"])
def test_what_the_owner_set_stays(name: str) -> None:
    assert waiting({name: "1"}, is_crowded=True) == {}
    assert waiting({}, is_crowded=False) == SHORT_SPIN


def test_a_run_with_more_threads_than_cores_is_told_to_let_them_sleep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ASLEEP:
        monkeypatch.delenv(name, raising=False)
    told: list[dict[str, str]] = []
    monkeypatch.setattr(EmbeddedFramework, "start", lambda *_: str(tmp_path / "start"))
    monkeypatch.setattr(framework, "EngineSession", lambda *given: told.append(given[2]))
    job = JobSpec(name="small", model=DenseModel(), workload=MathWorkload(), algorithm=AlgorithmSpec())
    for num_threads in (1, 64):
        spec = LaunchSpec(settings={"rollout_threads": num_threads, "train_threads": 1}, seed=0)
        EmbeddedFramework(cache_dir=tmp_path).launch(job, spec, tmp_path / "run")
    assert [{name: env.get(name) for name in ASLEEP} for env in told] == [
        {"OMP_WAIT_POLICY": None, **SHORT_SPIN},
        ASLEEP,
    ]
