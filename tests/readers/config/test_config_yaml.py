"""YAML, whole and in pieces, with parents and interpolations."""

from pathlib import Path

from config_texts import notes_of, one, settings_of, values_in

from steptune.readers.config.files import read_config_path
from steptune.readers.config.tree import Map, flatten
from steptune.readers.config.yaml_text import read_yaml


def values_of_file(path: Path) -> dict[str, object]:
    return {setting.key: setting.value for setting in read_config_path(path).settings}


def test_every_key_of_valid_yaml_has_its_line_and_type() -> None:
    text = (
        'grpo:\n  num_prompts_per_step: 64\n  lr: 5.0e-6\n\nloss_fn:\n  name: "1"\n  ratio: null\n  betas: [0.9, 0.999]'
    )
    got = [(s.key, s.value, s.origin.line) for s in settings_of(text)]
    assert got == [
        ("grpo.num_prompts_per_step", 64, 2),
        ("grpo.lr", 5e-06, 3),
        ("loss_fn.name", "1", 6),
        ("loss_fn.ratio", None, 7),
        ("loss_fn.betas", (0.9, 0.999), 8),
    ]


def test_a_fragment_that_starts_indented_is_read_line_by_line() -> None:
    text = "    round: 64\n  packing:\n    enabled: true\n  max_grad_norm: 1.0"
    assert values_in(text) == {"round": 64, "packing.enabled": True, "max_grad_norm": 1.0}


def test_a_missing_space_after_the_colon_is_forgiven() -> None:
    text = (
        "allocation_mode: sglang.d4+d4\ncluster:\n  n_nodes: 1\nmax_concurrent_rollouts:16\nmb_spec:\n    max_tokens: 8"
    )
    assert values_in(text)["max_concurrent_rollouts"] == 16
    assert values_in(text)["mb_spec.max_tokens"] == 8


def test_lists_of_mappings_are_spelt_by_position() -> None:
    lines = list(enumerate(["scheduler:", "  - name: a", "    kwargs: {n: 1}", "  - name: b"], start=1))
    assert [e.key for e in flatten(read_yaml(lines))] == [
        "scheduler.0.name",
        "scheduler.0.kwargs.n",
        "scheduler.1.name",
    ]


def test_interpolations_are_resolved_when_their_target_is_here() -> None:
    text = (
        "policy:\n  len: 512\n  mb: 4\n  tokens: ${mul:${policy.len}, ${policy.mb}}\n  same: ${.len}\n  other: ${x.y}"
    )
    values = values_in(text)
    assert (values["policy.tokens"], values["policy.same"]) == (2048, 512)
    assert not one(text, "policy.other").is_resolved
    assert one(text, "policy.tokens").is_resolved


def test_an_override_changes_what_an_interpolation_means() -> None:
    text = "policy:\n  len: 512\n  tokens: ${policy.len}\n\nuv run examples/run_grpo.py policy.len=1024"
    assert values_in(text)["policy.tokens"] == 1024


def test_a_reference_to_a_mapping_stands_for_all_of_it() -> None:
    text = "actor:\n  spec:\n    gpu: 1\n    cpu: 4\nref:\n  spec: ${actor.spec}"
    assert values_in(text)["ref.spec.cpu"] == 4


def test_references_in_a_circle_stay_unresolved() -> None:
    assert not any(s.is_resolved for s in settings_of("a:\n  x: ${a.y}\n  y: ${a.x}"))


def test_a_parent_file_is_merged_below_its_child(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text(
        "grpo:\n  n: 16\n  seed: 42\nscheduler:\n  - name: a\n  - name: b\nopt:\n  kwargs:\n    lr: 1\n"
    )
    child = tmp_path / "child.yaml"
    child.write_text("defaults: base.yaml\ngrpo:\n  n: 8\nscheduler: null\nopt:\n  _override_: true\n  name: sgd\n")
    assert values_of_file(child) == {"grpo.seed": 42, "grpo.n": 8, "scheduler": None, "opt.name": "sgd"}
    seed = next(s for s in read_config_path(child).settings if s.key == "grpo.seed")
    assert (Path(seed.origin.path).name, seed.origin.line) == ("base.yaml", 3)


def test_a_hydra_list_composes_groups_choices_and_packages(tmp_path: Path) -> None:
    (tmp_path / "actor").mkdir()
    (tmp_path / "optim").mkdir()
    (tmp_path / "engine").mkdir()
    (tmp_path / "optim/fsdp.yaml").write_text("lr: 1e-6\n")
    (tmp_path / "engine/dp.yaml").write_text("# @package _global_\n{}\n")
    (tmp_path / "actor/dp_actor.yaml").write_text("defaults:\n  - ../optim@optim: fsdp\n  - _self_\nmini: 256\n")
    (tmp_path / "main.yaml").write_text(
        "defaults:\n  - engine: dp\n  - actor@a.actor: ${engine}_actor\n  - _self_\na:\n  actor:\n    mini: 64\n"
    )
    assert values_of_file(tmp_path / "main.yaml") == {"a.actor.optim.lr": 1e-06, "a.actor.mini": 64}


def test_a_missing_parent_is_noted_and_stays_unresolved(tmp_path: Path) -> None:
    child = tmp_path / "child.yaml"
    child.write_text("defaults: ../base.yaml\ngrpo:\n  n: 8\n")
    reading = read_config_path(child)
    assert [(s.key, s.is_resolved) for s in reading.settings] == [("defaults", False), ("grpo.n", True)]
    assert "../base.yaml" in reading.notes[0].text


def test_the_parents_of_a_pasted_yaml_are_unresolved() -> None:
    text = "defaults: ../grpo_math_1B.yaml\ngrpo:\n  n: 8"
    assert [(s.key, s.value, s.is_resolved) for s in settings_of(text)] == [
        ("defaults", "../grpo_math_1B.yaml", False),
        ("grpo.n", 8, True),
    ]
    assert "../grpo_math_1B.yaml" in notes_of(text)[0]


def test_a_reading_names_the_other_files_it_holds(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text("a: 1\n")
    (tmp_path / "child.yaml").write_text("defaults: base.yaml\nb: 2\n")
    assert read_config_path(tmp_path / "child.yaml").files == (str(tmp_path / "base.yaml"),)


def test_a_file_that_is_its_own_parent_ends(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("defaults: a.yaml\nx: 1\n")
    assert values_of_file(path) == {"x": 1}


def test_a_logged_configuration_is_unwrapped(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("wandb_version: 1\nlr:\n  desc: null\n  value: 0.1\ndata:\n  value:\n    n: 2\n")
    assert values_of_file(path) == {"lr": 0.1, "data.n": 2}


WANDB = """\
_wandb:
    value:
        cli_version: 0.19.1
        t:
            "1":
                - 1
                - 5
beta:
    value: 0.04
optim:
    desc: null
    value: adamw_torch
trainer:
    value:
        n_gpus_per_node: 8
        logger:
            - console
            - wandb
"""


def test_a_logged_configuration_is_unwrapped_in_a_paste_too() -> None:
    text = f"here is my config:\n```yaml\n{WANDB}```\nwhat is wrong?"
    expected = {"beta": 0.04, "optim": "adamw_torch", "trainer.n_gpus_per_node": 8}
    assert values_in(text) == {**expected, "trainer.logger": ("console", "wandb")}


def test_a_fragment_of_a_logged_configuration_is_unwrapped_when_all_of_it_looks_so() -> None:
    assert values_in("lr:\n  value: 0.1\nbeta:\n  desc: null\n  value: 0.04") == {"lr": 0.1, "beta": 0.04}
    assert values_in("lr:\n  value: 0.1\nbeta: 0.04") == {"lr.value": 0.1, "beta": 0.04}
    assert values_in("lr:\n  value: 0.1\nbeta:\n  value: 1\n  max: 2")["lr.value"] == 0.1


def test_deep_and_self_repeating_yaml_ends() -> None:
    laughs = "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\n" + "d: [" + ", ".join(["*c"] * 500) + "]"
    assert isinstance(read_yaml(list(enumerate(laughs.split("\n"), start=1))), Map)
    assert isinstance(read_yaml([(1, "a: " + "[" * 3000)]), Map)


def test_a_blank_line_inside_a_section_does_not_end_it() -> None:
    policy = (
        "policy:\n  name: Qwen/Qwen3-4B\n\n  # the engine\n  generation:\n    tp: 2\n\n  megatron_cfg:\n    tp: 4\n"
    )
    assert values_in(policy + "\ngrpo:\n  group: 16\n") == {
        "policy.name": "Qwen/Qwen3-4B",
        "policy.generation.tp": 2,
        "policy.megatron_cfg.tp": 4,
        "grpo.group": 16,
    }
