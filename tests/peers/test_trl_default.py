"""The lever table of the *default* baseline against the live `GRPOConfig()` and one live step of it."""

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from live_grpo import NUM_LAYERS, LiveRun, config

from steptune.adapters.embedded.baselines import DEFAULT_DEVICE_ROWS, default_levers, work_arguments
from steptune.core.job import AlgorithmSpec, JobSpec
from steptune.engine.algorithms import advantages

LONGEST_PROMPT_LEN = 20

DERIVED = {"generation_batch_size", "steps_per_generation"}
"""Fields GRPOConfig computes from the accumulation."""

HARNESS = {"save_strategy", "disable_tqdm"}
"""Fields the tests set so that nothing is written."""


@pytest.fixture
def live_config(trl: ModuleType, job: JobSpec, tmp_path: Path) -> Any:
    with pytest.warns(FutureWarning, match="activation_checkpointing"):
        return config(job, tmp_path)


@pytest.fixture
def levers(job: JobSpec) -> dict[str, Any]:
    return {lever.knob: lever.value for lever in default_levers(job, longest_prompt_len=LONGEST_PROMPT_LEN)}


@pytest.mark.filterwarnings("ignore:.*activation_checkpointing:FutureWarning")
def test_the_work_is_all_that_differs_from_the_default_object(
    trl: ModuleType, job: JobSpec, tmp_path: Path, note: Callable[[str], None]
) -> None:
    plain = trl.GRPOConfig(output_dir=str(tmp_path), use_cpu=True, report_to="none")
    ours = config(job, tmp_path)
    pairs = {field.name: (getattr(plain, field.name), getattr(ours, field.name)) for field in fields(plain)}
    changed = {name: f"{old} -> {new}" for name, (old, new) in pairs.items() if old != new and name not in HARNESS}
    note(f"the job's work in GRPOConfig(): {changed}")
    assert set(changed) <= set(work_arguments(job)) | DERIVED
    assert {"gradient_accumulation_steps", "generation_batch_size", "max_completion_length"} <= set(changed)


def test_the_declared_algorithm_starts_from_trls_own_defaults(trl: ModuleType, tmp_path: Path) -> None:
    """What the example leaves unsaid is TRL's default too, so *default* differs from TRL in size and rate only."""
    said = {"gradient_accumulation_steps", "max_completion_length", "learning_rate", "lr_scheduler_type"}
    with pytest.warns(FutureWarning):
        plain = vars(trl.GRPOConfig(output_dir=str(tmp_path), use_cpu=True, report_to="none"))
    ours = work_arguments(JobSpec(name="t", algorithm=AlgorithmSpec()))
    defaults = {name: plain[name] for name in ours if name not in said}
    defaults["epsilon_high"] = defaults["epsilon_high"] or defaults["epsilon"]
    assert {name: value for name, value in ours.items() if name not in said} == defaults


def test_rollout_concurrency_all_rollouts_are_one_generation_batch(live_config: Any, job: JobSpec, levers: Any) -> None:
    assert live_config.generation_batch_size == job.algorithm.rollouts_per_step == 256
    assert live_config.steps_per_generation == live_config.gradient_accumulation_steps == 32
    assert levers["rollout_concurrency"] is None


def test_rollout_is_plain_generate(live_config: Any, levers: Any) -> None:
    assert not live_config.use_vllm
    assert not live_config.use_transformers_continuous_batching
    assert not levers["share_prefill"]
    assert not levers["compact_finished"]


def test_micro_batch_is_8_rows_of_the_longest_width(live_config: Any, job: JobSpec, levers: Any) -> None:
    assert live_config.per_device_train_batch_size == DEFAULT_DEVICE_ROWS
    width = LONGEST_PROMPT_LEN + job.algorithm.max_completion_len
    assert levers["micro_batch_tokens"] == live_config.per_device_train_batch_size * width


def test_number_format_recompute_and_old_log_probs(live_config: Any, levers: Any) -> None:
    assert live_config.bf16
    assert levers["train_dtype"] == levers["rollout_dtype"] == "bf16"
    assert live_config.gradient_checkpointing is levers["recompute"] is True
    generate_every = live_config.steps_per_generation * live_config.num_iterations
    needs_pass = live_config.gradient_accumulation_steps % generate_every != 0
    assert needs_pass is (levers["logprob_batch_tokens"] is not None) is False


@pytest.mark.filterwarnings("ignore:.*activation_checkpointing:FutureWarning")
def test_several_updates_make_trl_run_the_pass_our_table_has(trl: ModuleType, tmp_path: Path) -> None:
    job = JobSpec(name="t", algorithm=AlgorithmSpec(num_updates=2))
    live = config(job, tmp_path)
    assert live.generation_batch_size == 256
    assert live.gradient_accumulation_steps % (live.steps_per_generation * live.num_iterations) != 0
    table = {lever.knob: lever.value for lever in default_levers(job, longest_prompt_len=LONGEST_PROMPT_LEN)}
    assert table["logprob_batch_tokens"] == table["micro_batch_tokens"]


def test_one_live_step_generates_all_rows_in_one_call(live_run: LiveRun) -> None:
    assert live_run.rows_per_generate == [256]


def test_live_generation_prefills_every_rollout_and_keeps_finished_rows(live_run: LiveRun) -> None:
    prefill, *decodes = live_run.generate_forwards
    assert prefill == (256, live_run.longest_prompt)
    assert set(decodes) == {(256, 1)}
    # the prefill gives the first token; the last token is never fed back
    assert len(decodes) == live_run.longest_completion - 1


def test_live_training_runs_8_rows_as_wide_as_the_whole_generation_batch(live_run: LiveRun) -> None:
    width = live_run.longest_prompt + live_run.longest_completion
    assert live_run.train_forwards == [(8, width)] * 32
    assert min(live_run.longest_row_of_micro_batch) < max(live_run.longest_row_of_micro_batch) <= width


def test_the_live_step_recomputes_and_runs_no_separate_log_prob_pass(live_run: LiveRun) -> None:
    assert live_run.num_logprob_passes == 0
    # attention runs once in each layer's forward and once more in its recomputation
    assert live_run.attention_calls["train"] == 2 * NUM_LAYERS * len(live_run.train_forwards)


@pytest.mark.parametrize("phase", ["generate", "train"])
def test_both_live_phases_compute_in_bf16_over_fp32_weights(live_run: LiveRun, phase: str) -> None:
    assert live_run.linear_dtypes[phase] == {(torch.float32, torch.bfloat16)}


def test_the_live_rollout_reads_the_trained_module_itself(live_run: LiveRun) -> None:
    assert live_run.generates_with_trained_module


def test_the_live_optimizer_is_fused_adamw_like_the_engines(live_run: LiveRun) -> None:
    assert type(live_run.optimizer) is torch.optim.AdamW
    assert live_run.optimizer.defaults["fused"] is True


def test_trl_leaves_torchs_threads_alone(live_run: LiveRun) -> None:
    assert live_run.num_threads == torch.get_num_threads()


def test_live_advantages_are_the_engines(live_run: LiveRun, job: JobSpec) -> None:
    ours_B = advantages(torch.tensor(live_run.rewards), group_size=job.algorithm.group_size, scale="group")
    assert len(live_run.advantages) == 256
    torch.testing.assert_close(ours_B, torch.tensor(live_run.advantages))
