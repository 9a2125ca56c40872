"""How large the logits of one micro batch are: tokens x vocabulary x bytes, the term most users forget.

A 0.6B model runs out on a 24 GB card because 150 thousand logits a token outweigh it (huggingface/trl#3678).
"""

from steptune.core.units import gib
from steptune.memory.settings import View
from steptune.memory.tables import compiled, vocab_rules

FP32_BYTES = 4
"""Losses and entropies are computed on an fp32 copy of the logits (verl, TRL and NeMo RL alike)."""


def vocab_size(view: View) -> int | None:
    """Return the vocabulary of the configured model; None when it is not set or not in the table."""
    names = (view.value(key) for key in view.rule.model_keys)
    name = next((value.lower() for value in names if isinstance(value, str)), None)
    if name is None:
        return None
    return next((rule.vocab_size for rule in vocab_rules() if compiled(rule.pattern).search(name)), None)


def micro_tokens(view: View) -> int | None:
    """Return the most tokens in one training micro batch; None when the settings do not say."""
    if view.rule.budget_keys and view.holds(view.rule.budget_when):
        budget = view.first_number(view.rule.budget_keys)
        if budget is not None and budget > 0:
            return int(budget)
    samples, sequence = view.first_number(view.rule.micro_keys), view.sequence_tokens()
    return None if samples is None or sequence is None else int(samples) * sequence


def logits_text(view: View) -> str | None:
    """Return one sentence with the size of one fp32 copy of the logits, or None where settings do not allow it."""
    tokens, vocab = micro_tokens(view), vocab_size(view)
    if tokens is None or vocab is None:
        return None
    ways = 1
    for key in view.rule.vocab_split_keys:
        ways *= int(view.number(key) or 1)
    size = gib(tokens * vocab * FP32_BYTES / ways)
    split = f" over {ways} devices" if ways > 1 else ""
    return (
        f"one fp32 copy of the logits is {size:.1f} GiB: {tokens:,} tokens x {vocab:,} vocabulary x "
        f"{FP32_BYTES} bytes{split}, and the loss, its gradient and the entropy each need one"
    )


def positions_text(needed_gib: float, vocab: int) -> str:
    """Return what an allocation would be in logits: ``13.91 GiB is the fp32 logits of 24,600 tokens``."""
    tokens = needed_gib * 2**30 / (vocab * FP32_BYTES)
    return f"{needed_gib:g} GiB is the fp32 logits of about {tokens:,.0f} tokens at {vocab:,} vocabulary"
