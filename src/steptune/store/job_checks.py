"""Combinations of settings that no run can have, however legal each one is. Pure: no file is read here."""

import re
from collections.abc import Iterator

from steptune.core.job import PROBLEM, AlgorithmSpec, Correction, JobSpec
from steptune.core.model import DecoderModel, ExpertFields, ModelSpec
from steptune.store.job_mistakes import Mistake

NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""Job names become folder names: no separators, no leading dot, short enough for every file system."""

EXPERT_ALIGNMENT = 8
"""Elements: torch's grouped products take rows of whole 16 bytes, 8 numbers in bf16 (torch 2.13)."""


def impossible(job: JobSpec, *, has_folder: bool = False) -> list[Mistake]:
    """Return every combination in ``job`` that cannot run; ``has_folder``: its model is still to come from one."""
    return [
        *_name(job.name),
        *_model(job.model),
        *_prompt(job.workload.prompt, is_text=has_folder or job.model.pretrained is not None),
        *_algorithm(job.algorithm),
        *_correction(job.algorithm.correction),
    ]


def _prompt(prompt: str, *, is_text: bool) -> Iterator[Mistake]:
    if prompt.count(PROBLEM) != 1:
        yield Mistake.of(
            "workload.prompt",
            what="{key} in {where} must hold the problem once",
            got=repr(prompt),
            allowed=f"text with one `{PROBLEM}` in it",
            hint=f'the default is "{PROBLEM}"',
        )
    elif prompt != PROBLEM and not is_text:
        yield Mistake.of(
            "workload.prompt",
            "model",
            what="{key} in {where} is text that the engine's own vocabulary has no tokens for",
            got=repr(prompt),
            allowed=f'"{PROBLEM}", unless the model is a folder with a tokenizer',
            hint='leave it out, or use `[model] kind = "hf"`',
        )


def _name(name: str) -> Iterator[Mistake]:
    if not NAME_PATTERN.fullmatch(name):
        yield Mistake.of(
            "name",
            what="{key} in {where} cannot name a folder",
            got=repr(name),
            allowed="1 to 64 letters, digits, `.`, `_` or `-`, the first a letter or digit",
            hint='use something like "math-dense"',
        )


def _model(model: ModelSpec) -> Iterator[Mistake]:
    yield from _head_width(model)
    heads, kv_heads = model.num_heads, model.num_kv_heads
    if heads % kv_heads:
        yield Mistake.of(
            "model.num_heads",
            "model.num_kv_heads",
            what="{key} in {where} must be a multiple of `model.num_kv_heads`",
            got=f"{heads} and {kv_heads}",
            allowed="whole groups of query heads per key/value head",
            hint=f"use `model.num_kv_heads` = {max(d for d in range(1, min(heads, kv_heads) + 1) if heads % d == 0)}",
        )
    if isinstance(model, ExpertFields) and model.top_k > model.num_experts:
        yield Mistake.of(
            "model.top_k",
            "model.num_experts",
            what="{key} in {where} cannot be more than there are experts",
            got=f"{model.top_k} of {model.num_experts} experts",
            allowed=f"1 to {model.num_experts}",
            hint="Qwen3-30B-A3B takes 8 of 128",
        )
    if isinstance(model, ExpertFields):
        yield from _unaligned(model)


def _unaligned(model: ExpertFields) -> Iterator[Mistake]:
    for name, width in (("d_model", model.d_model), ("d_expert", model.d_expert)):
        if width % EXPERT_ALIGNMENT:
            yield Mistake.of(
                f"model.{name}",
                what="{key} in {where} must be a multiple of " + str(EXPERT_ALIGNMENT) + " in a mixture of experts",
                got=width,
                allowed="rows of whole 16 bytes, which grouped products ask for",
                hint=f"use {_multiples(width, EXPERT_ALIGNMENT)}",
            )


def _head_width(model: DecoderModel) -> Iterator[Mistake]:
    width, heads = model.d_model, model.num_heads
    if model.head_dim is not None:
        if model.head_dim % 2:
            yield Mistake.of(
                "model.head_dim",
                what="{key} in {where} must be even, because rotary positions turn pairs",
                got=model.head_dim,
                allowed="an even head width",
                hint=f"use {model.head_dim - 1} or {model.head_dim + 1}",
            )
    elif width % heads:
        yield Mistake.of(
            "model.d_model",
            "model.num_heads",
            what="{key} in {where} must be a multiple of `model.num_heads`",
            got=f"{width} and {heads}",
            allowed=f"multiples of {heads}",
            hint=f"use {_multiples(width, 2 * heads)}",
        )
    elif (width // heads) % 2:
        yield Mistake.of(
            "model.d_model",
            "model.num_heads",
            what="{key} / `model.num_heads` in {where} must be even, because rotary positions turn pairs",
            got=f"{width} / {heads} = {width // heads}",
            allowed="an even head width",
            hint=f"use `model.d_model` = {_multiples(width, 2 * heads)}",
        )


def _algorithm(algorithm: AlgorithmSpec) -> Iterator[Mistake]:
    if algorithm.num_updates > algorithm.prompts_per_step:
        yield Mistake.of(
            "algorithm.num_updates",
            "algorithm.prompts_per_step",
            what="{key} in {where} must leave each optimizer step at least one prompt",
            got=f"{algorithm.num_updates} updates of {algorithm.prompts_per_step} prompts",
            allowed=f"1 to {algorithm.prompts_per_step}",
            hint=f"use {algorithm.prompts_per_step} or fewer",
        )
    if algorithm.overlong_buffer_len >= algorithm.max_completion_len:
        yield Mistake.of(
            "algorithm.overlong_buffer_len",
            "algorithm.max_completion_len",
            what="{key} in {where} must be shorter than `algorithm.max_completion_len`",
            got=f"{algorithm.overlong_buffer_len} and {algorithm.max_completion_len}",
            allowed=f"0 to {algorithm.max_completion_len - 1}",
            hint=f"DAPO uses a fifth of the limit: {algorithm.max_completion_len // 5}",
        )
    if algorithm.dual_clip is not None and algorithm.dual_clip <= 1:
        yield Mistake.of(
            "algorithm.dual_clip",
            what="{key} in {where} would keep every negative advantage from teaching (verl asserts the same)",
            got=algorithm.dual_clip,
            allowed="more than 1, or left out",
            hint="the usual value is 3.0",
        )


def _correction(correction: Correction) -> Iterator[Mistake]:
    if correction.kind == "band" and correction.floor >= correction.cap:
        yield Mistake.of(
            "algorithm.correction.floor",
            "algorithm.correction.cap",
            what="{key} in {where} must be below `algorithm.correction.cap`, or every token is left out",
            got=f"{correction.floor} and {correction.cap}",
            allowed=f"0 to less than {correction.cap}",
            hint="IcePop keeps 0.5 to 5",
        )


def _multiples(near: int, of: int) -> str:
    """Name the multiples of ``of`` on both sides of ``near``, without zero."""
    below = near // of * of
    return " or ".join(str(m) for m in (below, below + of) if m)
