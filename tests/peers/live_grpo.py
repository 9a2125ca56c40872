"""Runs TRL's own GRPOTrainer for one step on a tiny random model and writes down what it did.

Nothing of TRL is replaced: methods are wrapped, look at their arguments, and call the original. The model
ends a completion with any of several tokens, so lengths differ and few rows reach the limit.
TRL is imported inside functions: this module must import where TRL is missing.
"""

import os
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from steptune.adapters.embedded.baselines import work_arguments
from steptune.core.job import JobSpec

NUM_LAYERS = 2
SYMBOLS = "0123456789+="
NUM_ENDINGS = 5
"""Tokens that end a completion, of 20 in all: rows end after about 4 of at most 40 tokens."""


@dataclass(kw_only=True)
class LiveRun:
    """What one optimizer step did. Phases are ``generate`` and ``train``."""

    rows_per_generate: list[int] = field(default_factory=list)
    generate_forwards: list[tuple[int, int]] = field(default_factory=list)
    """(rows, positions) of every model forward inside `generate`, in order."""
    train_forwards: list[tuple[int, int]] = field(default_factory=list)
    longest_row_of_micro_batch: list[int] = field(default_factory=list)
    longest_prompt: int = 0
    longest_completion: int = 0
    num_logprob_passes: int = 0
    """Calls for per-token log-probs outside the loss."""
    attention_calls: Counter[str] = field(default_factory=Counter)
    linear_dtypes: dict[str, set[tuple[torch.dtype, torch.dtype]]] = field(default_factory=dict)
    """(weight, output) number formats of every linear layer, by phase."""
    generates_with_trained_module: bool = False
    optimizer: torch.optim.Optimizer | None = None
    num_threads: int = 0
    rewards: list[float] = field(default_factory=list)
    advantages: list[float] = field(default_factory=list)


def config(job: JobSpec, folder: Path, **changes: object) -> Any:
    """Return `GRPOConfig()` with only the job's work set, on the CPU and writing nothing."""
    from trl import GRPOConfig

    quiet = {"use_cpu": True, "report_to": "none", "save_strategy": "no", "disable_tqdm": True}
    return GRPOConfig(output_dir=str(folder), **quiet, **{**work_arguments(job), **changes})


def run_one_step(job: JobSpec, folder: Path) -> LiveRun:
    """Run one optimizer step of TRL's default on the job's work."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    run = LiveRun()
    with pytest.MonkeyPatch.context() as patch:
        phase = ["other"]
        _watch_layers(patch, run, phase)
        trainer = _watched_trainer(run, phase)(
            model=tiny_model(),
            reward_funcs=digits_reward,
            args=config(job, folder, max_steps=1, logging_steps=1),
            train_dataset=prompts(job.algorithm.prompts_per_step),
            processing_class=tokenizer(),
        )
        trainer.train()
    run.optimizer = getattr(trainer.optimizer, "optimizer", trainer.optimizer)
    run.num_threads = torch.get_num_threads()
    run.rewards = list(trainer._logs["rewards"]["digits_reward"])
    run.advantages = list(trainer._logs["advantages"])
    return run


def digits_reward(completions: list[str], **_: object) -> list[float]:
    """Return the share of digits: cheap, and different inside most groups."""
    return [sum(c.isdigit() for c in text) / max(1, len(text)) for text in completions]


def tokenizer() -> Any:
    """Return a one-symbol-one-token tokenizer."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    names = ["<pad>", "<eos>", "<unk>", *SYMBOLS, *(f"<end{i}>" for i in range(NUM_ENDINGS))]
    inner = Tokenizer(models.WordLevel({name: i for i, name in enumerate(names)}, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    return PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>")


def tiny_model() -> Any:
    """Return a random Llama of about 20,000 parameters, of a fixed seed."""
    from transformers import LlamaConfig, LlamaForCausalLM

    size = 3 + len(SYMBOLS) + NUM_ENDINGS
    torch.manual_seed(0)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=size,
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=NUM_LAYERS,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=128,
            pad_token_id=0,
            eos_token_id=[1, *range(size - NUM_ENDINGS, size)],
        )
    )


def prompts(num_prompts: int) -> Any:
    """Return prompts of 2 to 7 tokens."""
    from datasets import Dataset

    draw = random.Random(0)
    texts = ["".join(draw.choices(SYMBOLS, k=2 + i % 6)) for i in range(num_prompts)]
    return Dataset.from_dict({"prompt": texts})


def _watched_trainer(run: LiveRun, phase: list[str]) -> Any:
    """Return a GRPOTrainer class whose overridden methods only look."""
    from trl import GRPOTrainer

    class Watched(GRPOTrainer):
        def _generate_single_turn(self, prompt_ids: list[list[int]], *args: Any, **kwargs: Any) -> Any:
            phase[0] = "generate"
            out = super()._generate_single_turn(prompt_ids, *args, **kwargs)
            phase[0] = "other"
            run.rows_per_generate.append(len(prompt_ids))
            run.longest_prompt = max(map(len, prompt_ids))
            run.longest_completion = max(map(len, out[0]))
            return out

        def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Any:
            phase[0] = "train"
            rows = inputs["prompt_mask"].sum(1) + inputs["completion_mask"].sum(1)
            run.longest_row_of_micro_batch.append(int(rows.max()))
            return super()._compute_loss(model, inputs)

        def _get_per_token_logps_and_entropies(self, *args: Any, **kwargs: Any) -> Any:
            run.num_logprob_passes += phase[0] != "train"
            return super()._get_per_token_logps_and_entropies(*args, **kwargs)

        def training_step(self, model: nn.Module, *args: Any, **kwargs: Any) -> Any:
            run.generates_with_trained_module = self.accelerator.unwrap_model(self.model_wrapped) is model
            return super().training_step(model, *args, **kwargs)

    return Watched


def _watch_layers(patch: pytest.MonkeyPatch, run: LiveRun, phase: list[str]) -> None:
    """Note every decoder forward, attention call and linear layer under the phase it happened in."""
    from transformers.models.llama.modeling_llama import LlamaModel

    decoder, attention, linear = LlamaModel.forward, nn.functional.scaled_dot_product_attention, nn.Linear.forward
    forwards: dict[str, Callable[[], list[tuple[int, int]]]] = {
        "generate": lambda: run.generate_forwards,
        "train": lambda: run.train_forwards,
    }

    def watched_decoder(self: Any, *args: Any, **kwargs: Any) -> Any:
        if phase[0] in forwards:
            rows, positions = kwargs["input_ids"].shape
            forwards[phase[0]]().append((rows, positions))
        return decoder(self, *args, **kwargs)

    def watched_attention(*args: Any, **kwargs: Any) -> Any:
        run.attention_calls[phase[0]] += 1
        return attention(*args, **kwargs)

    def watched_linear(self: nn.Linear, x: torch.Tensor) -> torch.Tensor:
        y = linear(self, x)
        run.linear_dtypes.setdefault(phase[0], set()).add((self.weight.dtype, y.dtype))
        return y

    patch.setattr(LlamaModel, "forward", watched_decoder)
    patch.setattr(nn.functional, "scaled_dot_product_attention", watched_attention)
    patch.setattr(nn.Linear, "forward", watched_linear)
