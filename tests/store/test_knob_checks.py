import pytest

from steptune.core.errors import JobError
from steptune.core.job import JobSpec, KnobsSpec
from steptune.core.knob import Effect, KnobSpec, KnobValue, Restart
from steptune.core.phase import Role
from steptune.store.knob_checks import check_knobs


def spec(name: str, *values: KnobValue) -> KnobSpec:
    return KnobSpec(name=name, side=Role.TRAINER, values=values, effect=Effect.NONE, restart=Restart.HOT, what="a knob")


SPECS = (
    spec("layout", "padded", "packed"),
    spec("concurrency", None, 64),
    spec("recompute", False, True),
    spec("threads", 1, 2),
)


def complaint(**knobs: object) -> str:
    with pytest.raises(JobError) as caught:
        check_knobs(JobSpec(name="t", knobs=KnobsSpec.model_validate(knobs)), SPECS)
    return str(caught.value)


def test_known_knobs_and_values_pass() -> None:
    pin = {"layout": "packed", "concurrency": None, "recompute": True}
    check_knobs(JobSpec(name="t", knobs=KnobsSpec(allow=("threads",), pin=pin)), SPECS)


def test_an_unknown_knob_gets_the_nearest_spelling() -> None:
    allowed = "allowed: concurrency, layout, recompute, threads; hint: did you mean `layout`?"
    assert complaint(allow=("layuot",)) == f"`knobs.allow` names no knob, got `layuot`; {allowed}"
    assert complaint(pin={"layot": "packed"}) == f"`knobs.pin` names no knob, got `layot`; {allowed}"


def test_a_pinned_value_must_be_one_of_the_knobs() -> None:
    assert "got `packd`; allowed: `padded`, `packed`; hint: did you mean `packed`?" in complaint(
        pin={"layout": "packd"}
    )
    assert "got `32`; allowed: `off`, `64`; hint: use `off`" in complaint(pin={"concurrency": 32})


def test_one_is_not_true_and_true_is_not_one() -> None:
    assert "got `1`; allowed: `false`, `true`" in complaint(pin={"recompute": 1})
    assert "got `true`; allowed: `1`, `2`" in complaint(pin={"threads": True})


def test_a_knob_cannot_be_pinned_and_allowed() -> None:
    message = complaint(allow=("layout",), pin={"layout": "packed"})
    assert message.startswith("`layout` is in `knobs.allow` and `knobs.pin`")


def test_every_mistake_is_in_one_report() -> None:
    assert complaint(allow=("a", "b"), pin={"c": 1, "layout": "x"}).count("hint: ") == 4
