"""The price list of several replicas: measured with all of them at work, only where it is asked for."""

import sys
from pathlib import Path

import pytest

from steptune.core.job import JobSpec, KnobsSpec
from steptune.core.profile import CostCurve
from steptune.engine import offline_work
from steptune.engine.knob_checks import asks_for_replicas
from steptune.engine.orders import ProbeOrder
from steptune.engine.probe_replicas import probe_replicas, slowest
from steptune.engine.types import RolloutTrace

sys.path.insert(0, str(Path(__file__).parents[1]))
from inline_worker import InlineReplica
from loop_cases import small_job


@pytest.fixture(scope="module")
def curves(tmp_path_factory: pytest.TempPathFactory) -> list[CostCurve]:
    folder = tmp_path_factory.mktemp("probe")
    return probe_replicas(small_job(), folder, (2,), (1, 2), ("fp32", "bf16"), start=InlineReplica)


def test_every_number_format_has_curves_of_a_replicas_own_rows(curves: list[CostCurve]) -> None:
    # two cores: two replicas have one thread each
    keys = [(c.name, c.when.get("rollout_dtype"), c.when.get("rollout_threads")) for c in curves]
    names = ("decode", "prefill", "handover", "load")
    assert keys == [(f"{name}_replicated", dtype, 1) for dtype in ("fp32", "bf16") for name in names]
    assert all(c.when["rollout_replicas"] == 2 for c in curves)
    for curve in curves:
        assert all(point.seconds > 0 for point in curve.points)
    # up to the half of the step's 16 rows
    assert [point.x for point in curves[0].points] == [1, 2, 4, 8]


def test_the_slowest_replica_is_what_counts() -> None:
    traces = [
        RolloutTrace(prefill_tokens=1, decode_iterations=1, running_I=(1,), prefill_s=0.1, decode_s=s)
        for s in (0.2, 0.4, 0.3)
    ]
    assert slowest(traces) is traces[1]


@pytest.mark.parametrize(
    ("knobs", "asks"),
    [
        (KnobsSpec(), False),
        (KnobsSpec(allow=("rollout_routing",)), False),
        (KnobsSpec(allow=("rollout_replicas",)), True),
        (KnobsSpec(pin={"rollout_replicas": 2}), True),
        (KnobsSpec(pin={"rollout_replicas": 1}), False),
    ],
)
def test_replicas_are_measured_where_they_may_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, knobs: KnobsSpec, asks: bool
) -> None:
    job: JobSpec = small_job().model_copy(update={"knobs": knobs})
    assert asks_for_replicas(job) == asks
    asked = []
    for name in ("probe_rollout", "probe_trainer", "probe_handover"):
        monkeypatch.setattr(offline_work, name, lambda *_, **__: [])
    monkeypatch.setattr(offline_work, "probe_replicas", lambda _job, _folder, numbers, *_: asked.append(numbers) or [])
    offline_work.probe(ProbeOrder(job=job, out_path=str(tmp_path / "costs.json")))
    assert asked == [[2] if asks else []]
