"""The price list of two ranks: every setting at every size, measured with both at work, only where it is asked for."""

import sys
from pathlib import Path

import pytest
from rank_cases import MODELS, InlineRank

from steptune.core.job import JobSpec, KnobsSpec
from steptune.core.profile import CostCurve
from steptune.engine import offline_work
from steptune.engine import probe_ranks as probe_ranks_module
from steptune.engine.knob_checks import asks_for_ranks
from steptune.engine.orders import ProbeOrder
from steptune.engine.probe_ranks import SIZES, probe_ranks

sys.path.insert(0, str(Path(__file__).parents[1]))
from loop_cases import small_job


@pytest.fixture(scope="module")
def curves(tmp_path_factory: pytest.TempPathFactory) -> list[CostCurve]:
    folder = tmp_path_factory.mktemp("probe")
    return probe_ranks(small_job(), folder, ("fp32",), budget_s=0, start_rank=InlineRank)


def test_every_setting_has_a_rising_curve_of_its_own_name(curves: list[CostCurve]) -> None:
    by_name = {name: [c for c in curves if c.name == name] for name in {c.name for c in curves}}
    # three layouts with and without recompute; the pass only without; one optimizer
    assert {name: len(found) for name, found in by_name.items()} == {
        "train_ranked": 6,
        "logprob_ranked": 3,
        "optimizer_ranked": 1,
    }
    for curve in by_name["train_ranked"]:
        x = [point.x for point in curve.points]
        assert x == sorted(x)
        assert len(x) == len(SIZES)
        assert all(point.seconds > 0 for point in curve.points)
        assert set(curve.when) == {"train_threads", "train_dtype", "recompute", "compile", "layout"}


def test_a_size_is_that_of_one_rank(curves: list[CostCurve]) -> None:
    packed = next(c for c in curves if c.name == "train_ranked" and c.when["layout"] == "packed")
    for size, point in zip(SIZES, packed.points, strict=True):
        assert point.x == pytest.approx(size, rel=0.15)


def test_a_hybrids_ranks_share_no_prompt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe_ranks_module, "SIZES", (64,))
    job = small_job().model_copy(update={"model": MODELS["hybrid"]})
    found = probe_ranks(job, tmp_path, ("fp32",), budget_s=0, start_rank=InlineRank)
    assert {curve.when["layout"] for curve in found if "layout" in curve.when} == {"padded", "packed"}


@pytest.mark.parametrize(
    ("knobs", "asks"),
    [
        (KnobsSpec(), False),
        (KnobsSpec(allow=("layout",)), False),
        (KnobsSpec(allow=("train_ranks",)), True),
        (KnobsSpec(pin={"train_ranks": 2}), True),
        (KnobsSpec(pin={"train_ranks": 1}), False),
    ],
)
def test_ranks_are_measured_where_they_may_be_used(knobs: KnobsSpec, asks: bool) -> None:
    job: JobSpec = small_job().model_copy(update={"knobs": knobs})
    assert asks_for_ranks(job) == asks


def test_a_pinned_number_format_is_the_only_one_that_ranks_are_measured_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    for name in ("probe_rollout", "probe_trainer", "probe_handover"):
        monkeypatch.setattr(offline_work, name, lambda *_, **__: [])
    monkeypatch.setattr(offline_work, "probe_ranks", lambda _job, _folder, dtypes: asked.append(dtypes) or [])
    for pin in ({}, {"train_dtype": "fp32"}):
        knobs = KnobsSpec(allow=("train_ranks",), pin=pin)
        job = small_job().model_copy(update={"knobs": knobs})
        offline_work.probe(ProbeOrder(job=job, out_path=str(tmp_path / "costs.json")))
    assert asked == [["fp32", "bf16"], ["fp32"]]
