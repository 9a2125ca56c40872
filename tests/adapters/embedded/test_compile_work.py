"""The knob `compile` as the tuner sees it: asked for or not there, priced by its own curves or not at all."""

from pathlib import Path

import pytest

from steptune.adapters.embedded.conflicts import conflicts
from steptune.adapters.embedded.framework import EmbeddedFramework
from steptune.adapters.embedded.knobs import knob_specs
from steptune.adapters.embedded.session import session_environment
from steptune.adapters.embedded.work import WorkCounter
from steptune.core.job import JobSpec, KnobsSpec
from steptune.core.knob import KnobValue
from steptune.core.phase import Role
from steptune.core.profile import CostCurve, CurvePoint, SampledLengths
from steptune.engine import compiler
from steptune.engine.knobs import EngineKnobs
from steptune.engine.probe_train import compiles_to_price, settings_of
from steptune.forecast.curve import CostBook, ForecastError
from steptune.forecast.side import side_costs

JOB = JobSpec(name="job")
ALLOWED, PINNED = KnobsSpec(allow=("compile",)), KnobsSpec(pin={"compile": True})
LENGTHS = SampledLengths(prompt=(8,) * 256, completion=(12,) * 256, rollouts_per_step=256)
KNOBS = EngineKnobs(compile=True, layout="packed")


@pytest.mark.parametrize(
    ("knobs", "values", "priced"),
    [
        (KnobsSpec(), (False,), [False]),
        (KnobsSpec(pin={"compile": False}), (False,), [False]),
        (ALLOWED, (False, True), [False, True]),
        (PINNED, (False, True), [True]),
    ],
)
def test_the_knob_moves_and_is_priced_only_where_its_owner_names_it(
    knobs: KnobsSpec, values: tuple[bool, ...], priced: list[bool]
) -> None:
    job = JOB.model_copy(update={"knobs": knobs})
    (spec,) = (spec for spec in knob_specs(job) if spec.name == "compile")
    assert spec.values == values
    assert spec.effect == "none"
    assert compiles_to_price(job) == priced
    assert {each.knobs.compile for each in settings_of(job, (1,), ("fp32",), (False,), sizes=(64,))} == set(priced)


def curves(is_compiled: bool, seconds: float) -> list[CostCurve]:
    points = (CurvePoint(x=1, seconds=seconds), CurvePoint(x=1000, seconds=1000 * seconds))
    when: dict[str, KnobValue] = {"compile": is_compiled}
    return [CostCurve(name="train", when=when, unit="tokens", points=points)]


OTHERS = [
    CostCurve(name=name, when={}, unit="", points=(CurvePoint(x=1, seconds=0.001), CurvePoint(x=9, seconds=0.01)))
    for name in ("decode", "prefill", "logprob", "optimizer", "handover", "load")
]


def test_no_curve_of_layers_as_they_stand_prices_compiled_ones() -> None:
    planned = WorkCounter(job=JOB, lengths=LENGTHS).planned(KNOBS)
    with pytest.raises(ForecastError, match="hint: measure `train` under compile=True"):
        side_costs(planned, CostBook(curves=(*OTHERS, *curves(False, 1e-4))))
    both = CostBook(curves=(*OTHERS, *curves(False, 1e-4), *curves(True, 5e-5)))
    plain = WorkCounter(job=JOB, lengths=LENGTHS).planned(KNOBS.model_copy(update={"compile": False}))
    saved_s = (
        side_costs(plain, both).seconds[Role.TRAINER, "train"]
        - side_costs(planned, both).seconds[Role.TRAINER, "train"]
    )
    assert saved_s == pytest.approx(5e-5 * planned.padded_tokens, rel=0.01)


def test_without_a_compiler_the_tuner_does_not_try_it_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler.shutil, "which", lambda name: None)
    assert any("compile needs a C++ compiler" in reason for reason in conflicts(JOB, KNOBS))
    assert conflicts(JOB, KNOBS.model_copy(update={"compile": False})) == ()
    monkeypatch.setattr(compiler.shutil, "which", lambda name: f"/usr/bin/{name}")
    assert conflicts(JOB, KNOBS) == ()


def test_what_is_compiled_is_kept_in_the_users_cache_unless_its_owner_says(tmp_path: Path) -> None:
    assert session_environment({}, "mark", tmp_path)[compiler.CACHE_VARIABLE] == str(tmp_path / "compiled")
    own = {compiler.CACHE_VARIABLE: "/elsewhere"}
    assert session_environment(own, "mark", tmp_path)[compiler.CACHE_VARIABLE] == "/elsewhere"


def test_every_baseline_has_it_off_unless_it_is_pinned(tmp_path: Path) -> None:
    framework = EmbeddedFramework(cache_dir=tmp_path)
    for job, value in ((JOB, False), (JOB.model_copy(update={"knobs": PINNED}), True)):
        levers = {lever.knob: lever.value for lever in framework.baseline(job, "default")}
        assert levers["compile"] is value
