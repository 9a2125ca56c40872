"""Launch scripts: what bash would pass is what is read."""

from pathlib import Path

import pytest
from config_texts import notes_of, one, settings_of, values_in

from steptune.core.paste import effective
from steptune.readers.config.files import read_config_path


def test_overrides_keep_line_prefix_and_layer() -> None:
    text = "python3 -m verl.trainer.main_ppo \\\n  data.train_batch_size=64 \\\n  +actor.x=1e-6 ++a.b=null ~a.c"
    got = [(s.key, s.value, s.prefix, s.origin.line, s.layer) for s in settings_of(text)]
    assert got == [
        ("data.train_batch_size", 64, "", 2, "override"),
        ("actor.x", 1e-06, "+", 3, "override"),
        ("a.b", None, "++", 3, "override"),
        ("a.c", None, "~", 3, "override"),
    ]


def test_duplicate_keys_stay_and_the_last_wins() -> None:
    settings = settings_of("python3 -m verl.trainer.main_ppo a.n=1 a.n=2")
    assert [s.value for s in settings] == [1, 2]
    assert effective(settings)["a.n"].value == 2


def test_a_variable_of_the_same_script_is_resolved_and_an_unknown_one_is_not() -> None:
    text = "TP=2\npython3 -m verl.trainer.main_ppo a.tp=$TP a.n=${N:-4} a.both=$((TP * 4)) a.path=${DATA}/x"
    assert values_in(text) == {"a.tp": 2, "a.n": 4, "a.both": 8, "a.path": "${DATA}/x"}
    assert one(text, "a.n").is_resolved
    assert not one(text, "a.path").is_resolved


def test_a_comment_inside_a_command_ends_it_and_what_follows_is_noted_as_lost() -> None:
    text = "python3 -m verl.trainer.main_ppo \\\n  a.x=1 \\\n  # a.y=2 \\\n  a.z=3 \\\n  a.w=4"
    assert values_in(text) == {"a.x": 1}
    (note,) = notes_of(text)
    assert "line 3" in note
    assert "`a.z=3`" in note


def test_arrays_are_passed_where_they_are_expanded_with_their_own_lines() -> None:
    arrays = "ARGS=(\n  --lr 1e-6\n  # --lr 2\n  --bf16\n)\nARGS+=(--n 8)\n"
    text = arrays + "ray job submit -- python3 train.py ${ARGS[@]} --seed 1"
    got = [(s.key, s.value, s.origin.line) for s in settings_of(text)]
    assert got == [("lr", 1e-06, 2), ("bf16", True, 4), ("n", 8, 6), ("seed", 1, 7)]


@pytest.mark.parametrize(
    ("mode", "expected"), [("async", {"a.raw": True, "env.VLLM_USE_V1": 1}), ("sync", {"a.raw": False})]
)
def test_an_if_on_a_known_value_takes_its_branch(mode: str, expected: dict[str, object]) -> None:
    text = f'mode="{mode}"\nraw=False\nif [ "$mode" = "async" ]; then\n  export VLLM_USE_V1=1\n  raw=True\nfi\n'
    assert values_in(text + "python3 -m verl.trainer.main_ppo a.raw=$raw") == expected


def test_an_if_on_an_unknown_value_leaves_what_it_sets_unresolved() -> None:
    text = 'tp=2\nif [ "$(hostname)" = "x" ]; then tp=4; fi\npython3 -m verl.trainer.main_ppo a.tp=$tp'
    assert not one(text, "a.tp").is_resolved


def test_case_and_lists_of_tests_are_followed() -> None:
    text = (
        'backend=fsdp\ncase "$backend" in\n  megatron) pp=2 ;;\n  fsdp|fsdp2)\n    pp=1\n    ;;\nesac\n'
        '[ "$pp" -gt 1 ] && vpp=2 || vpp=null\npython3 -m verl.trainer.main_ppo a.pp=$pp a.vpp=$vpp'
    )
    assert values_in(text) == {"a.pp": 1, "a.vpp": None}


def test_flags_take_values_lists_or_nothing() -> None:
    text = "python3 train.py --colocate --lr=1e-6 --eval-interval -1 --eval-prompt-data aime a.jsonl --bf16"
    assert values_in(text) == {
        "colocate": True,
        "lr": 1e-06,
        "eval-interval": -1,
        "eval-prompt-data": ("aime", "a.jsonl"),
        "bf16": True,
    }


def test_exports_inline_and_runtime_environment_variables_are_env_settings() -> None:
    text = (
        "export CUDA_LAUNCH_BLOCKING=1\nray job submit --runtime-env-json='{\n"
        '  "env_vars": {"NCCL_DEBUG": "INFO"}\n}\' -- python3 train.py --n 1\n'
        "VLLM_USE_V1=0 python3 -m verl.trainer.main_ppo a.b=1"
    )
    values = values_in(text)
    assert values == {
        "env.CUDA_LAUNCH_BLOCKING": 1,
        "env.NCCL_DEBUG": "INFO",
        "n": 1,
        "env.VLLM_USE_V1": 0,
        "a.b": 1,
    }
    assert one(text, "env.NCCL_DEBUG").origin.line == 3


def test_files_that_a_command_composes_are_named() -> None:
    text = "uv run rl @ base.toml --trainer @ train.toml --trainer.model.seq-len 2048 --bench"
    assert [(s.key, s.value) for s in settings_of(text)] == [
        ("config", "base.toml"),
        ("config", "train.toml"),
        ("trainer.model.seq-len", 2048),
        ("bench", True),
    ]


def test_only_the_launcher_flags_that_size_the_job_are_kept() -> None:
    text = "accelerate launch --config_file z3.yaml --num_processes 8 --main_process_port 1 grpo.py --max_steps 5"
    assert values_in(text) == {"config_file": "z3.yaml", "num_processes": 8, "max_steps": 5}


def test_a_server_command_has_its_own_keys() -> None:
    text = "trl vllm-serve --model M --tensor_parallel_size 2"
    assert values_in(text) == {"vllm_serve.model": "M", "vllm_serve.tensor_parallel_size": 2}


@pytest.mark.parametrize(
    "line",
    [
        "python3 examples/data_preprocess/gsm8k.py --local_dir x",
        "pip install --no-deps verl",
        "docker run --gpus all image",
    ],
)
def test_commands_that_train_nothing_give_no_settings(line: str) -> None:
    assert settings_of(line) == ()


def test_a_here_document_is_data_and_not_commands(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text("cat > c.yaml <<EOF\na.b=1\nEOF\npython3 train.py --n 1\n")
    assert [s.key for s in read_config_path(script).settings] == ["n"]


def test_hydra_lists_and_mappings_are_read_as_such() -> None:
    text = "python3 -m verl.trainer.main_ppo a.log=['console','wandb'] \"a.f=['/d/x', '/d/y']\" '+a.kw={b: 1, c: [2]}'"
    assert values_in(text) == {"a.log": ("console", "wandb"), "a.f": ("/d/x", "/d/y"), "a.kw.b": 1, "a.kw.c": (2,)}


def test_bare_assignments_without_a_command_are_the_configuration() -> None:
    assert values_in("N_SAMPLES=32\nmax_len=8192\nrollout.n=8\nfsdp_size=8") == {
        "max_len": 8192,
        "rollout.n": 8,
        "fsdp_size": 8,
    }


def test_a_fragment_of_flags_without_its_command_is_read() -> None:
    text = "N=32\n   --zero_stage 3 \\\n   --n_samples_per_prompt $N \\\n   --bf16 \\"
    assert values_in(text) == {"zero_stage": 3, "n_samples_per_prompt": 32, "bf16": True}


def test_a_sourced_file_beside_the_script_is_followed(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models/tiny.sh").write_text("MODEL_ARGS=(\n  --num-layers 2\n)\n")
    script = tmp_path / "run.sh"
    script.write_text('source "$(dirname $0)/models/tiny.sh"\npython3 train.py ${MODEL_ARGS[@]} --lr 1\n')
    layers, rate = read_config_path(script).settings
    assert (layers.key, layers.value, Path(layers.origin.path).name, layers.origin.line) == (
        "num-layers",
        2,
        "tiny.sh",
        2,
    )
    assert (rate.key, rate.origin.path) == ("lr", str(script))


def test_arrays_that_double_do_not_fill_the_memory() -> None:
    text = "A=(--x 1)\n" + 'A=("${A[@]}" "${A[@]}")\n' * 60 + 'python3 train.py "${A[@]}"'
    assert len(settings_of(text)) <= 5_000


def test_a_toolbox_names_its_method_first_and_its_environment_before() -> None:
    text = "CUDA_VISIBLE_DEVICES=0,1 \\\nNPROC_PER_NODE=2 \\\nswift rlhf \\\n --rlhf_type grpo \\\n --num_generations 8"
    expected = {"env.CUDA_VISIBLE_DEVICES": "0,1", "env.NPROC_PER_NODE": 2, "rlhf_type": "grpo", "num_generations": 8}
    assert values_in(text) == expected
    without_backslashes = text.replace(" \\", "")
    assert values_in(without_backslashes) == expected
    assert values_in("swift build --configuration release") == {}


def test_flags_of_a_rollout_server_are_not_the_trainers() -> None:
    assert values_in("swift rollout --vllm_tensor_parallel_size 4") == {"vllm_serve.vllm_tensor_parallel_size": 4}


@pytest.mark.parametrize("end", ["2>&1 | tee run.log", "2> err.txt", "> run.log 2>&1 &", "&> run.log", "2>/dev/null"])
def test_where_the_output_goes_is_no_value_of_the_last_flag(end: str) -> None:
    assert values_in(f"python3 train.py --num_generations 8 {end}") == {"num_generations": 8}
    assert values_in(f"python3 train.py --reward_funcs a b {end}") == {"reward_funcs": ("a", "b")}
