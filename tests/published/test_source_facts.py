"""The collector of keys reads what a framework's source declares, without importing it."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"


@pytest.fixture
def facts(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(TOOLS))
    import source_facts

    yield source_facts
    sys.modules.pop("source_facts", None)


def test_nested_classes_bases_and_unions_become_dotted_keys(facts: Any, tmp_path: Path) -> None:
    path = tmp_path / "config.py"
    path.write_text(
        "class Optim:\n    lr: float = 1e-6\n"
        "class Base:\n    seed: int = 42\n"
        "class Sgd(Optim):\n    momentum: float = Field(0.9, ge=0)\n"
        "Any = Optim | Sgd\n"
        "class Main(Base):\n    optim: Optional[Any] = None\n    names: list[Optim] = field(default_factory=list)\n"
        "    seed: int = 1\n"
    )
    classes = facts.read_classes([path], tmp_path)
    found: dict[str, str] = {}
    for fact in facts.class_facts(classes, "Main"):
        found.setdefault(fact.key, fact.default)
    assert found == {
        "optim": "None",
        "optim.lr": "1e-06",
        "optim.momentum": "0.9",
        "names": "list",
        "seed": "1",
    }


def test_flags_in_a_loop_over_names_are_spelt_out(facts: Any, tmp_path: Path) -> None:
    path = tmp_path / "cli.py"
    path.write_text(
        'for prefix in ("actor", "critic"):\n    parser.add_argument(f"--{prefix}.adam.lr", type=float, default=1e-6)\n'
        'parser.add_argument("--bf16", "--use-bf16", action="store_true")\n'
    )
    found = [(f.key, f.type, f.default) for f in facts.flag_facts(path, tmp_path)]
    assert sorted(found) == [
        ("actor.adam.lr", "float", "1e-06"),
        ("bf16", "flag", "False"),
        ("critic.adam.lr", "float", "1e-06"),
        ("use-bf16", "flag", "False"),
    ]


def test_yaml_gives_the_type_of_its_value(facts: Any, tmp_path: Path) -> None:
    path = tmp_path / "base.yaml"
    path.write_text("defaults: x.yaml\na:\n  n: 8\n  lr: 1e-6\n  z: null\n  l: [1]\n")
    assert [(f.key, f.type, f.default) for f in facts.yaml_facts(path, tmp_path)] == [
        ("a.n", "int", "8"),
        ("a.lr", "float", "1e-6"),
        ("a.z", "null", "null"),
        ("a.l", "list", "[1]"),
    ]
