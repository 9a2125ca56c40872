"""What a rollout refuses before it computes anything: sizes, tokens and hand-overs that cannot be.

Shape letters: B rows, P prompt token.
"""

import torch
from torch import Tensor

from steptune.core.errors import HealthError, JobError, explain
from steptune.engine.knob_checks import check_alias
from steptune.engine.knobs import EngineKnobs
from steptune.engine.model import Transformer
from steptune.engine.types import PromptBatch


def limits(prompts: PromptBatch, max_len: int, forced_lengths_B: Tensor | None) -> Tensor:
    """Return int64 [B], the completion tokens every row may have.

    Raises:
        JobError: the limit is not positive, or a forced length is missing or beyond it.
    """
    num_rows = prompts.num_rows
    if max_len < 1:
        raise JobError(
            explain("`max_completion_len` must be positive", got=max_len, allowed="1 or more", hint="use 40")
        )
    if forced_lengths_B is None:
        return torch.full_like(prompts.lengths_B, max_len)
    if forced_lengths_B.shape != (num_rows,) or forced_lengths_B.min() < 1 or forced_lengths_B.max() > max_len:
        raise JobError(
            explain(
                "every rollout needs one completion length",
                got=f"{tuple(forced_lengths_B.shape)} lengths for {num_rows} rows",
                allowed=f"one per row, each 1 to {max_len}",
                hint="replay lengths recorded from the same job",
            )
        )
    return forced_lengths_B.long()


def check_prompts(prompts: PromptBatch, num_tokens: int) -> None:
    """Refuse a batch without rows, a prompt without tokens, and tokens that the model has no embedding for.

    ``num_tokens`` is the embedding's rows, padding of the vocabulary included: a model may write what no tokenizer
    has, and its completions are scored as prompts.

    Raises:
        JobError: any of these.
    """
    if prompts.num_rows == 0 or int(prompts.lengths_B.min()) < 1:
        raise JobError(
            explain(
                "a rollout needs prompts",
                got=f"{prompts.num_rows} rows of shape {tuple(prompts.tokens_BP.shape)}",
                allowed="one or more rows of at least one token",
                hint="begin prompts with the BOS token",
            )
        )
    least, most = map(int, prompts.tokens_BP.aminmax())
    if least < 0 or most >= num_tokens:
        raise JobError(
            explain(
                "the prompts hold tokens that the model does not know",
                got=f"token {most if most >= num_tokens else least}",
                allowed=f"0 to {num_tokens - 1}",
                hint="use the tokenizer that came with the model",
            )
        )


def check_context(prompts: PromptBatch, limit_B: Tensor, context_len: int | None) -> None:
    """Refuse rows that could outgrow the positions the model was trained on; None knows no bound.

    Raises:
        JobError: the longest prompt and completion together are longer.
    """
    row = int((prompts.lengths_B + limit_B).argmax())
    num_prompt, num_new = int(prompts.lengths_B[row]), int(limit_B[row])
    if context_len is not None and num_prompt + num_new > context_len:
        raise JobError(
            explain(
                "prompt and completion are longer than the model's context",
                got=f"{num_prompt} + {num_new} tokens",
                allowed=f"{context_len} together",
                hint=f"use a completion length of at most {max(0, context_len - num_prompt)}, or shorter prompts",
            )
        )


def check_ends(pad_id: int, eos_ids: tuple[int, ...], vocab_size: int) -> None:
    """Refuse special tokens of another vocabulary.

    Raises:
        JobError: a token the model cannot produce: no row would ever end.
    """
    for name, token in (*(("end-of-sequence", eos_id) for eos_id in eos_ids), ("padding", pad_id)):
        if not 0 <= token < vocab_size:
            raise JobError(
                explain(
                    f"the tokenizer's {name} token does not fit the model",
                    got=token,
                    allowed=f"0 to {vocab_size - 1}",
                    hint="use the tokenizer that came with the model",
                )
            )


def check_logprobs(logprob_BT: Tensor, *, num_tokens: int) -> None:
    """Refuse log-probs (0 in the padding) of ``num_tokens`` tokens that are no numbers.

    Raises:
        HealthError: NaN or infinity.
    """
    num_bad = int((~logprob_BT.isfinite()).sum())
    if num_bad:
        raise HealthError(
            explain(
                "the rollout's log-probs must be finite",
                got=f"{num_bad} of {num_tokens} NaN or infinite",
                allowed="finite numbers",
                hint="lower `algorithm.lr`; the weights have diverged",
            )
        )


def check_handover(knobs: EngineKnobs, shared: Transformer | None) -> None:
    """Refuse a module shared against the knobs.

    Raises:
        JobError: sharing is asked for without a module, in another process, or in another number format than fp32.
    """
    if (knobs.handover == "alias") != (shared is not None):
        raise JobError(
            explain(
                "a module is shared with the rollout under handover `alias` and under no other",
                got=f"handover `{knobs.handover}`, {'a' if shared is not None else 'no'} module",
                allowed="`alias` with a module, `copy` or `file` without",
                hint="use handover `copy`",
            )
        )
    check_alias(knobs)
