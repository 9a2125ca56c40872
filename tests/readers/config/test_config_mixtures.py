"""Mixtures: configuration is found between log lines, and measurements are never taken for it."""

import json
import pprint
from collections.abc import Callable

import pytest
from config_texts import settings_of, values_in
from hypothesis import given, settings
from hypothesis import strategies as st

from steptune.core.paste import Setting
from steptune.readers.config.python_text import read_python
from steptune.readers.config.read import CONFIG_LINE, read_settings

Reader = Callable[[list[tuple[int, str]], str], tuple[Setting, ...] | None]

METRIC_LINES = [
    "step:2 - actor/lr:0.0 - timing_s/gen:74.020 - actor/grad_norm:0.05",
    "{'loss': 0.0, 'grad_norm': 9.1, 'learning_rate': 4.1e-06, 'reward': 0.28, 'epoch': 0.1}",
    "rollout.py:1193 - perf 0: {'rollout/response_len/mean': 2773.7, 'perf/rollout_time': 371.1}",
    "'timing/step': '286.05', 'timing/generate': '27.65'",
    "'batch_num_seq': '128', 'batch_padded_seq_len': '2435'",
    '{"step": 3, "time/step": 12.0, "perf/mfu": 0.4}',
    "02:00:58 SUCCESS Step 0 | Time: 42.77s | Reward: 0.2938 | Throughput: 3966.9 tokens/s",
    "  • policy_training: 25.05s (37.6%)",
    "  main_perf/continuous_rollouts/total_duration_avg_s: 154.18",
    "timing_s/step:           43.64",
    "RuntimeError: invalid argument",
    "INFO:     10.0.0.1:4000 - POST /generate",
    "Map:  10%|█         | 100/1000",
    "note: we ran this on eight cards and it was slow",
    "loss: 0.1032",
    "epoch=1 loss=0.35",
    "wandb: Syncing run rosy-sun-3",
    "usage: main.py [-h]",
    "baseline:",
]


LAUNCHER = """\
MODEL_ARGS = "--hf-checkpoint /root/Qwen3-4B --num-layers 36 "
rollout_args = (
    "--rollout-batch-size 16 --n-samples-per-prompt 8 "
    f"--rollout-max-response-len {max_len} "
    "--apply-chat-template "
)
cmd = ["python", "train.py",
    "--num-rollout",
    "100",
    "--lr", lr,
    "--dtype", "bfloat16"]
parser.add_argument("--seed", type=int, default=1)
"""


@pytest.mark.parametrize("read", [read_settings, read_python])
def test_flags_in_the_strings_of_a_python_launcher_are_settings(read: Reader) -> None:
    found = {s.key: s for s in read(list(enumerate(LAUNCHER.splitlines(), start=1)), "run.py") or ()}
    known = {key: s.value for key, s in found.items() if s.is_resolved and key not in ("rollout_args", "cmd")}
    assert known == {
        "hf-checkpoint": "/root/Qwen3-4B",
        "num-layers": 36,
        "rollout-batch-size": 16,
        "n-samples-per-prompt": 8,
        "apply-chat-template": True,
        "num-rollout": 100,
        "dtype": "bfloat16",
    }
    assert {key for key, s in found.items() if not s.is_resolved} == {"rollout-max-response-len", "lr"}
    assert found["num-rollout"].origin.line == 8


@pytest.mark.parametrize("line", METRIC_LINES)
def test_a_line_of_measurements_gives_no_setting(line: str) -> None:
    assert settings_of(line) == ()


def test_shell_yaml_and_log_lines_of_one_post_are_told_apart() -> None:
    head = ["# my run", "export VLLM_USE_V1=1", "grpo:", "  n: 16", METRIC_LINES[0]]
    launch = [
        "python3 -m verl.trainer.main_ppo \\",
        "    data.train_batch_size=64 \\",
        "    a.b=True",
        "",
        METRIC_LINES[1],
    ]
    text = "\n".join([*head, *launch, "```yaml", "optim:", "  lr: 1e-6", "```"])
    assert values_in(text) == {
        "env.VLLM_USE_V1": 1,
        "grpo.n": 16,
        "data.train_batch_size": 64,
        "a.b": True,
        "optim.lr": 1e-06,
    }


def test_leaving_out_the_lines_the_sieve_refuses_changes_nothing() -> None:
    config = ["policy:", "  train:", "    n: 4", "python3 -m verl.trainer.main_ppo \\", "  a.b=1 \\", "  a.c=[1,2]"]
    lines = list(enumerate([*METRIC_LINES, *config, *METRIC_LINES], start=1))
    kept = [(number, text) for number, text in lines if CONFIG_LINE.match(text)]
    assert len(kept) < len(lines)
    assert read_settings(kept, "x") == read_settings(lines, "x")


def test_a_printed_tree_gives_the_same_as_the_tree() -> None:
    tree = {
        "actor_rollout_ref": {"actor": {"lr": 1e-06, "betas": [0.9, 0.999], "path": "/m/x y", "extra": {}}, "n": 5},
        "trainer": {"logger": ["console"], "device": None, "val": True, "name": "it's"},
    }
    expected = {
        "actor_rollout_ref.actor.lr": 1e-06,
        "actor_rollout_ref.actor.betas": (0.9, 0.999),
        "actor_rollout_ref.actor.path": "/m/x y",
        "actor_rollout_ref.actor.extra": "{}",
        "actor_rollout_ref.n": 5,
        "trainer.logger": ("console",),
        "trainer.device": None,
        "trainer.val": True,
        "trainer.name": "it's",
    }
    assert values_in(pprint.pformat(tree, width=60)) == expected
    assert values_in(json.dumps(tree, indent=2)) == expected


def test_a_tree_whose_head_was_cut_off_gives_what_is_left() -> None:
    assert values_in("           'n': 5,\n           'top_p': 0.9},\n 'trainer': {'nnodes': 2}}")["top_p"] == 0.9


def test_training_arguments_as_transformers_prints_them_are_read() -> None:
    text = "TrainingArguments(\n_n_gpu=1,\nbf16=True,\naccelerator_config={'split_batches': False},\nlr=1e-05,\n)"
    assert values_in(text)["bf16"] is True
    assert values_in(text)["accelerator_config.split_batches"] is False


def test_a_configuration_call_in_a_paste_is_code() -> None:
    text = "args = GRPOConfig(\n    num_generations=8,  # group\n    beta=0.0,\n    run='x',\n)\nreward: 0.5"
    found = settings_of(text)
    assert {s.key: s.value for s in found} == {"num_generations": 8, "beta": 0.0, "run": "x"}
    assert {s.layer for s in found} == {"code"}


def test_keyword_lines_without_their_call_lose_the_comma() -> None:
    text = "    per_device_train_batch_size=4,\n    beta=0.04,  # KL\n    report_to='none',"
    assert values_in(text) == {"per_device_train_batch_size": 4, "beta": 0.04, "report_to": "none"}


def test_bare_python_lines_are_read_with_their_environment() -> None:
    text = "os.environ['UNSLOTH_VLLM_STANDBY'] = '1'\ngpu_memory_utilization = 0.5\ntrain_batch_size (T) = 32 prompts"
    assert values_in(text) == {"env.UNSLOTH_VLLM_STANDBY": "1", "gpu_memory_utilization": 0.5, "train_batch_size": 32}


def test_megatron_prints_its_arguments_with_dots() -> None:
    assert values_in("  micro_batch_size ................ 1\n  bf16 ......... True") == {
        "micro_batch_size": 1,
        "bf16": True,
    }


def test_toml_sections_are_read_with_lines() -> None:
    found = settings_of('max_steps = 100\n\n[trainer.model]\nseq_len = 2048\nac = { freq = 1 }\n\n[[env]]\nid = "x"')
    assert [(s.key, s.value, s.origin.line) for s in found if s.key != "max_steps"] == [
        ("trainer.model.seq_len", 2048, 4),
        ("trainer.model.ac.freq", 1, 5),
        ("env.0.id", "x", 8),
    ]


@given(
    st.lists(st.sampled_from([*METRIC_LINES, "a:", "  b: 1", "x=1 \\", "f(", "{'a':", "'", '"', "$(", "${", "EOF <<"]))
)
@settings(max_examples=60)
def test_pieces_in_any_order_never_raise(pieces: list[str]) -> None:
    assert isinstance(settings_of("\n".join(pieces)), tuple)


@given(st.text(max_size=120))
@settings(max_examples=100)
def test_any_text_gives_settings_or_nothing(text: str) -> None:
    for setting in settings_of(text):
        assert setting.key
        assert setting.value == setting.value  # no NaN passes as a value


def test_the_overrides_of_a_failed_job_are_read_across_wrapped_lines() -> None:
    text = (
        "2025-07-31T08:28:47.9Z Error executing job with overrides: ['data.n=5', 'data.f=[/a,/b]', 'a.batch_siz\n"
        "e_per_gpu=2', '+a.kl=True']\nTraceback (most recent call last):\nseed_everything: true"
    )
    assert [(s.key, s.value, s.prefix, s.origin.line) for s in settings_of(text) if "." in s.key] == [
        ("data.n", 5, "", 1),
        ("data.f", ("/a", "/b"), "", 1),
        ("a.batch_size_per_gpu", 2, "", 1),
        ("a.kl", True, "+", 2),
    ]


def test_quote_marks_and_inline_code_of_an_issue_are_taken_off() -> None:
    text = (
        "> num_processes: 7\nbf16: true\nkwargs:\n  reentrant: false\n\n`python3 -m verl.trainer.main_ppo \\\n  a.b=1`"
    )
    assert values_in(text) == {"num_processes": 7, "bf16": True, "kwargs.reentrant": False, "a.b": 1}


def test_a_logged_configuration_in_json_is_unwrapped() -> None:
    text = '{\n  "_wandb": {\n    "value": {"m": []}\n  },\n  "cluster": {\n    "value": {"num_nodes": 4}\n  }\n}'
    assert values_in(text) == {"cluster.num_nodes": 4}


def test_of_pasted_python_only_what_configures_is_read() -> None:
    text = (
        'dataset = load_dataset("tldr", split="a")\nmodel = AutoModel.from_pretrained(\n    "Q",\n    dtype=1,\n)\n'
        "device = self.args.vllm_device\nparser.add_argument(\n    'x', type=int)\n"
        "trainer = GRPOTrainer(\n    model=model,\n    args=GRPOConfig(beta=0.1, n=8),\n)\nlora = LoraConfig(r=16)\n"
    )
    assert values_in(text) == {"beta": 0.1, "n": 8, "LoraConfig.r": 16}
