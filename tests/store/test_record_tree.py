from typing import Annotated, Literal

import pytest
from pydantic import Field, ValidationError

from steptune.core.records import Record
from steptune.store.job_mistakes import sentences
from steptune.store.record_tree import all_keys, describe, place_of


class Cpu(Record):
    kind: Literal["cpu"] = "cpu"
    num_cores: int = 2


class Gpu(Record):
    kind: Literal["gpu"] = "gpu"
    num_gpus: int = 8


class Site(Record):
    devices: Annotated[Cpu | Gpu, Field(discriminator="kind")]
    note: str | None = None
    pins: dict[str, bool | int | str] = Field(default_factory=dict)


def complaint(text: str) -> str:
    with pytest.raises(ValidationError) as caught:
        Site.model_validate_json(text, strict=True)
    (mistake,) = sentences(Site, caught.value)
    return mistake.sentence("`site.toml`", set())


def test_an_unknown_key_is_held_against_the_record_that_kind_names() -> None:
    message = complaint('{"devices": {"kind": "gpu", "num_gpu": 4}}')
    assert "unknown key `devices.num_gpu` in `site.toml`" in message
    assert "allowed: kind, num_gpus; hint: did you mean `num_gpus`?" in message


def test_an_unknown_kind_lists_the_kinds() -> None:
    message = complaint('{"devices": {"kind": "gpus"}}')
    assert '`devices` in `site.toml` has the wrong value, got "gpus"; allowed: cpu, gpu' in message


def test_the_name_of_a_union_member_is_no_key() -> None:
    assert place_of(Site, ("pins", "x", "bool")).loc == ("pins", "x")
    assert place_of(Site, ("devices", "gpu", "num_gpus")).loc == ("devices", "num_gpus")


def test_all_keys_go_through_every_member_of_a_union() -> None:
    assert [*all_keys(Site)] == [
        *("devices", "devices.kind", "devices.num_cores", "devices.kind", "devices.num_gpus"),
        *("note", "pins"),
    ]


def test_types_are_described_in_words() -> None:
    assert describe(tuple[Annotated[int, Field(gt=0)], ...]) == "a list, each element a whole number"
    assert describe(float | None) == "a number"
    assert describe(bool | int | None) == "true or false or a whole number"
    assert describe(dict[str, int]) == describe(Cpu) == "a table"
