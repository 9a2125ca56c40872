"""TRL's side of the comparison: its own `GRPOTrainer`, nothing replaced but what ends a completion.

`model.generate` gets a logits processor that ends row i at its forced length; the reward is our verifier on the
decoded text. Callbacks hold the trainer between blocks. TRL is imported inside functions: without it, this module
still imports.
"""

import os
import time
from pathlib import Path
from typing import Any

import torch
from same_work import problems

from steptune.adapters.embedded.baselines import work_arguments
from steptune.core.job import JobSpec
from steptune.core.model import DenseModel, MoEModel
from steptune.core.profile import SampledLengths
from steptune.engine.produce import TOKENIZER
from steptune.envs.math.verify import reward

MAX_STEPS = 400
"""More than any run takes; the parent ends it earlier."""


def run(spec: JobSpec, settings: dict[str, Any], forced: SampledLengths, folder: Path, turns: Any) -> None:
    """Train while the parent allows it."""
    os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    from datasets import Dataset
    from trl import GRPOTrainer

    answers = [problem.answer for problem in problems(spec, MAX_STEPS)]
    texts = [spell(TOKENIZER.encode_prompt(problem.text)) for problem in problems(spec, MAX_STEPS)]
    model = llama_like(spec)
    force_lengths(model, forced)
    GRPOTrainer(
        model=model,
        reward_funcs=verified,
        args=config(spec, settings, folder),
        train_dataset=Dataset.from_dict({"prompt": texts, "answer": answers}),
        processing_class=numbered_tokenizer(),
        callbacks=[hold_between(turns)],
    ).train()


def config(spec: JobSpec, settings: dict[str, Any], folder: Path) -> Any:
    """Return `GRPOConfig` with the job's work and the arm's settings; rows per device and accumulation go together."""
    from trl import GRPOConfig

    work = work_arguments(spec)
    if rows := settings.get("per_device_train_batch_size"):
        work["gradient_accumulation_steps"] = spec.algorithm.rollouts_per_step // rows
    quiet = {"use_cpu": True, "report_to": "none", "save_strategy": "no", "disable_tqdm": True}
    fixed = {
        "max_steps": MAX_STEPS,
        "shuffle_dataset": False,
        "logging_steps": MAX_STEPS,
        "dataloader_pin_memory": False,
    }
    return GRPOConfig(output_dir=str(folder), **quiet, **{**fixed, **work, **settings})


def verified(completions: list[str], answer: list[int], completion_ids: list[list[int]], **_: object) -> list[float]:
    """Return our verifier's reward of every completion."""
    texts = [TOKENIZER.decode(ids) for ids in completion_ids]
    return [reward(text, right) for text, right in zip(texts, answer, strict=True)]


def hold_between(turns: Any) -> Any:
    """Return a callback that times steps and holds the trainer between blocks."""
    from transformers import TrainerCallback

    class Hold(TrainerCallback):
        started_s = 0.0

        def on_step_begin(self, args: Any, state: Any, control: Any, **_: object) -> None:
            if not turns.wait():
                raise SystemExit(0)
            self.started_s = time.perf_counter()

        def on_step_end(self, args: Any, state: Any, control: Any, **_: object) -> None:
            turns.took.append(time.perf_counter() - self.started_s)

    return Hold()


def force_lengths(model: Any, forced: SampledLengths) -> None:
    """Make every call of ``model.generate`` end row i at exactly its length, step after step."""
    plain, calls = model.generate, [0]
    rows = forced.rollouts_per_step
    table = torch.tensor(forced.completion).view(-1, rows)

    def generate(**kwargs: Any) -> Any:
        prompt_len = kwargs["input_ids"].shape[1]
        assert len(kwargs["input_ids"]) == rows, "one generation call a step: TRL's default with accumulation"
        lengths_B = table[calls[0] % len(table)]
        calls[0] += 1

        def force(ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
            ends_B = lengths_B == ids.shape[1] - prompt_len + 1
            scores[:, TOKENIZER.eos_id] = -torch.inf
            scores[ends_B] = -torch.inf
            scores[ends_B, TOKENIZER.eos_id] = 0.0
            return scores

        return plain(**kwargs, logits_processor=[force])

    model.generate = generate


def llama_like(spec: JobSpec) -> Any:
    """Return transformers' Llama or Qwen3-MoE in the shape of the job's model, randomly initialised."""
    from transformers import LlamaConfig, LlamaForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM

    shape = spec.model
    common: dict[str, Any] = {
        "vocab_size": max(TOKENIZER.vocab_size, shape.padded_vocab or 0),
        "rms_norm_eps": shape.norm_eps,
        "rope_parameters": {"rope_type": "default", "rope_theta": shape.rope_theta},
        "hidden_size": shape.d_model,
        "num_hidden_layers": shape.num_layers,
        "num_attention_heads": shape.num_heads,
        "num_key_value_heads": shape.num_kv_heads,
        "max_position_embeddings": 256,
        "tie_word_embeddings": True,
        "pad_token_id": TOKENIZER.pad_id,
        "bos_token_id": TOKENIZER.bos_id,
        "eos_token_id": TOKENIZER.eos_id,
    }
    torch.manual_seed(0)
    if isinstance(shape, DenseModel):
        return LlamaForCausalLM(LlamaConfig(intermediate_size=shape.d_ff, **common))
    assert isinstance(shape, MoEModel)
    return Qwen3MoeForCausalLM(
        Qwen3MoeConfig(
            num_experts=shape.num_experts,
            num_experts_per_tok=shape.top_k,
            moe_intermediate_size=shape.d_expert,
            intermediate_size=shape.d_expert,
            head_dim=shape.head_width,
            norm_topk_prob=True,
            **common,
        )
    )


def spell(ids: list[int]) -> str:
    """Return ids as text the numbered tokenizer reads back."""
    return " ".join(f"<{token}>" for token in ids)


def numbered_tokenizer() -> Any:
    """Return a transformers tokenizer with our ids, written ``<0> <1> ...``.

    The brackets matter: special tokens are cut out of a text wherever they stand, and ``t2`` stands in ``t22``.
    """
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    names = {f"<{i}>": i for i in range(TOKENIZER.vocab_size)}
    inner = Tokenizer(models.WordLevel(names, unk_token="<0>"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<0>", bos_token="<1>", eos_token="<2>", unk_token="<0>"
    )
