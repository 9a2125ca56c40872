"""Logits of one micro-batch: tokens x vocabulary, in as many copies as stand at once.

Sources: huggingface/trl#3678 and verl's `torch_functional.py` (bf16 logits, an fp32 copy for the log-probs, its
gradient; entropy takes one more); chunked or fused losses hold one chunk of them (Liger, arXiv 2410.10989; Cut
Cross-Entropy, arXiv 2411.09009).
"""

from steptune.footprint.layout import TrainLayout
from steptune.footprint.term import Term
from steptune.shapes.shape import ModelShape

SOURCE = "tokens x vocabulary; copies as in huggingface/trl#3678 and arXiv 2410.10989"

TRAIN_BYTES = (6.0, 10.0, 14.0)
"""Bytes a logit when training: bf16 and fp32; with its gradient; with the entropy's copy."""

FORWARD_BYTES = (2.0, 6.0, 10.0)
"""Bytes a logit without gradient: bf16 alone; with fp32; with the entropy's copy."""


def logits_term(shape: ModelShape, layout: TrainLayout, tokens: float, *, with_grads: bool) -> Term:
    """Return the logits of ``tokens`` (per device), of which `logits_tokens` stand at once."""
    standing = tokens if layout.logits_tokens is None else min(tokens, float(layout.logits_tokens))
    numbers = standing * shape.vocab_size / layout.tensor
    low, mid, high = TRAIN_BYTES if with_grads else FORWARD_BYTES
    return Term(name="logits", low=low * numbers, mid=mid * numbers, high=high * numbers, source=SOURCE)
