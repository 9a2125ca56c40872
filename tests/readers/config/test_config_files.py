"""Whole files by their ending."""

from pathlib import Path

import pytest

from steptune.readers.config.files import read_config_path


def values(path: Path, text: str) -> dict[str, object]:
    path.write_text(text)
    return {setting.key: setting.value for setting in read_config_path(path).settings}


def test_python_follows_constants_arguments_and_environment(tmp_path: Path) -> None:
    source = (
        "import os\nos.environ['A_B'] = '1'\nbeta = 0.1\nN = 4\nparser.add_argument('--num-gen', type=int, default=8)\n"
        "args = GRPOConfig(beta=beta, batch=N * 2, num_generations=args.num_gen, lr=compute(), seq=[1, 2])\n"
        "args.max_steps = 5\npeft = LoraConfig(r=16)\n"
    )
    path = tmp_path / "train.py"
    assert values(path, source) == {
        "env.A_B": "1",
        "beta": 0.1,
        "batch": 8,
        "num_generations": 8,
        "lr": "compute()",
        "seq": (1, 2),
        "max_steps": 5,
        "LoraConfig.r": 16,
    }
    assert [s.key for s in read_config_path(path).settings if not s.is_resolved] == ["lr"]


def test_damaged_python_is_read_as_a_paste(tmp_path: Path) -> None:
    assert values(tmp_path / "x.py", "args = GRPOConfig(\n  beta=0.1,\n  n=8\n)\ndef broken(:\n")["beta"] == 0.1


def test_toml_keeps_nested_tables_and_lines(tmp_path: Path) -> None:
    path = tmp_path / "rl.toml"
    assert values(path, 'max_steps = 1\n[model]\nname = "Q"\n[trainer.optim]\nlr = 3e-6\n') == {
        "max_steps": 1,
        "model.name": "Q",
        "trainer.optim.lr": 3e-06,
    }
    assert [s.origin.line for s in read_config_path(path).settings] == [1, 3, 5]


def test_damaged_toml_gives_its_lines(tmp_path: Path) -> None:
    assert values(tmp_path / "rl.toml", "[a]\nx = 1\ny = = 2\n[b]\nz = true\n")["b.z"] is True


def test_json_is_read_and_a_trainer_state_is_not(tmp_path: Path) -> None:
    assert values(tmp_path / "ds.json", '{"zero": {"stage": 3}, "bf16": true, "x": [1, 2]}') == {
        "zero.stage": 3,
        "bf16": True,
        "x": (1, 2),
    }
    assert values(tmp_path / "trainer_state.json", '{"best_metric": null, "log_history": [{"loss": 1.0}]}') == {}


def test_an_ending_that_lies_is_forgiven(tmp_path: Path) -> None:
    script = "python3 -m verl.trainer.main_ppo \\\n  a.b=1\n"
    assert values(tmp_path / "run.txt", script) == {"a.b": 1}


@pytest.mark.parametrize("ending", ["sh", "yaml", "toml", "json", "py", "txt"])
@pytest.mark.parametrize(
    "number", ["9" * 5000, "0x" + "f" * 5000, "1e999", "1_", "1__0", "1_0_", "\u00b2", "--5", "nan"]
)
def test_no_number_is_an_error(tmp_path: Path, number: str, ending: str) -> None:
    text = {
        "sh": f"N={number}\nif [ $N -gt 3 ]; then python3 -m verl.main a.b=$((N*2)) a.c=$N --d {number}; fi\n",
        "yaml": f"a: {number}\nb: ${{mul:${{a}},3}}\nc: [{number}, 1]\n",
        "toml": f"[a]\nb = {number}\n",
        "json": f'{{"a": {number}}}\n',
        "py": f"args = GRPOConfig(beta={number})\n",
        "txt": f"python3 -m verl.trainer.main_ppo a.b={number} --c {number}\n",
    }
    path = tmp_path / f"run.{ending}"
    path.write_text(text[ending])
    values = [setting.value for setting in read_config_path(path).settings]
    assert all(abs(value) < float("inf") for value in values if isinstance(value, int | float))


def test_a_file_that_is_not_there_is_the_callers_to_handle(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_config_path(tmp_path / "none.yaml")
