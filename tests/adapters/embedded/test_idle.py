"""Tests for `adapters.embedded.idle`."""

from pathlib import Path

import pytest

from steptune.adapters.embedded import framework
from steptune.adapters.embedded.framework import EmbeddedFramework
from steptune.adapters.embedded.idle import (
    ASLEEP,
    SHORT_SPIN,
    is_crowded,
    may_sleep,
    put_to_sleep,
    threads_at_work,
    waiting,
)
from steptune.core.framework import LaunchSpec
from steptune.core.job import AlgorithmSpec, JobSpec, KnobsSpec, MathWorkload
from steptune.core.knob import KnobValue
from steptune.core.model import DenseModel
from steptune.core.phase import Role
from steptune.core.profile import CostCurve, CurvePoint
from steptune.core.work import WorkItem
from steptune.engine.knobs import EngineKnobs
from steptune.engine.offline_work import probe_asleep
from steptune.engine.orders import ProbeOrder
from steptune.forecast.curve import CostBook


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


JOB = JobSpec(name="small", model=DenseModel(num_layers=1, d_model=16, num_heads=4, num_kv_heads=2, d_ff=24))
SETTINGS: dict[str, KnobValue] = {"train_threads": 2, "train_dtype": "fp32"}
ITEM = WorkItem(role=Role.TRAINER, phase="train", curve="train", when=SETTINGS, x=10.0, count=1.0)


def curve(when: dict[str, KnobValue], seconds: float) -> CostCurve:
    return CostCurve(name="train", when=when, unit="tokens", points=(CurvePoint(x=10.0, seconds=seconds),))


def test_several_threads_of_a_crowded_run_have_a_price_between_asleep_and_spinning_and_one_thread_its_only_one() -> (
    None
):
    spun, slept = curve(SETTINGS, 1.0), curve({**SETTINGS, "idle_threads": "sleeping"}, 2.25)
    alone = ITEM.model_copy(update={"when": {**SETTINGS, "train_threads": 1}})
    book = CostBook(curves=(spun, slept, curve(alone.when, 3.0)))
    prices = [book.price(item).seconds for item in (ITEM, *put_to_sleep((ITEM, alone)))]
    assert prices == pytest.approx([1.0, 1.5, 3.0])  # the root of 1.0 x 2.25: a probe's threads wake late


def test_a_price_of_nothing_asleep_is_nothing() -> None:
    free = curve({**SETTINGS, "idle_threads": "sleeping"}, 0.0)
    assert CostBook(curves=(curve(SETTINGS, 1.0), free)).price(put_to_sleep((ITEM,))[0]).seconds == 0.0


def test_a_profile_without_prices_asleep_has_the_others() -> None:
    assert CostBook(curves=(curve(SETTINGS, 1.0),)).price(put_to_sleep((ITEM,))[0]).seconds == 1.0


@pytest.mark.parametrize(
    ("pin", "base", "may"),
    [
        ({}, {}, True),
        ({"schedule": "sync"}, {}, False),
        ({"rollout_threads": 1}, {}, True),
        ({"rollout_threads": 1, "train_threads": 1}, {}, False),
        ({}, {"OMP_WAIT_POLICY": "active"}, False),
    ],
)
def test_prices_asleep_are_measured_where_a_configuration_may_need_them(
    pin: dict[str, KnobValue], base: dict[str, str], may: bool
) -> None:
    assert may_sleep(JOB.model_copy(update={"knobs": KnobsSpec(pin=pin)}), base) is may


def test_a_probe_asleep_measures_several_threads_of_the_sides_that_may_have_them(tmp_path: Path) -> None:
    pin: dict[str, KnobValue] = {"rollout_threads": 1, "train_dtype": "fp32", "recompute": False, "layout": "packed"}
    job = JOB.model_copy(update={"knobs": KnobsSpec(pin=pin)})
    order = ProbeOrder(job=job, out_path=str(tmp_path / "costs.json"), trainer_budget_s=0.01, is_asleep=True)
    curves = probe_asleep(order)
    assert {c.name for c in curves} == {"train", "logprob", "optimizer"}
    assert all(c.when["idle_threads"] == "sleeping" and c.when["train_threads"] == 2 for c in curves)
