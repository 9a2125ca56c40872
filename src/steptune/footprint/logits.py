"""Logits of one micro-batch: tokens x vocabulary, in as many copies as stand at once.

Sources: huggingface/trl#3678 and verl's `torch_functional.py` (bf16 logits, an fp32 copy for the log-probs, its
gradient; entropy takes one more); chunked or fused losses hold one chunk of them (Liger, arXiv 2410.10989; Cut
Cross-Entropy, arXiv 2411.09009). Megatron's cross-entropy makes one fp32 copy, exponentiates it in place and writes the
gradient over it (`megatron/core/tensor_parallel/cross_entropy.py`); there is no entropy in supervised training.
"""

from steptune.footprint.layout import TrainLayout
from steptune.footprint.term import Term
from steptune.shapes.shape import ModelShape

SOURCE = "tokens x vocabulary; copies as in huggingface/trl#3678 and arXiv 2410.10989"

BYTES_EACH: dict[tuple[str, bool], tuple[float, float, float]] = {
    ("fp32", True): (4.0, 10.0, 14.0),
    ("fp32", False): (2.0, 6.0, 10.0),
    ("causal", True): (10.0, 12.0, 14.0),
    ("causal", False): (6.0, 10.0, 14.0),
    ("preference", True): (10.0, 18.0, 22.0),
    ("preference", False): (6.0, 10.0, 14.0),
    ("in_place", True): (2.0, 6.0, 10.0),
    ("in_place", False): (2.0, 4.0, 8.0),
    ("vocab_parallel", True): (2.0, 6.0, 8.0),
    ("vocab_parallel", False): (2.0, 6.0, 6.0),
    ("fused", True): (0.0, 0.0, 2.0),
    ("fused", False): (0.0, 0.0, 2.0),
}
"""Bytes a logit by `TrainLayout.loss` and whether there are gradients. fp32: bf16 and its gradient, where the loss
looks at few positions; bf16 and fp32 with its gradient; with the entropy's copy. Causal: going forward the bf16 logits,
their fp32 copy and its log-softmax, going back the log-softmax, its gradient and that of the fp32 copy; at most with
the shifted copy of older releases, or with the logits kept beside (transformers at 0114da0,
`src/transformers/loss/loss_utils.py`). Preference: the policy's fp32 logits, kept for the metrics, and their
log-softmax, beside the reference's three copies; less where only chosen tokens' are taken (LlamaFactory at 0005269,
`src/llamafactory/train/dpo/trainer.py`). In place: bf16 alone (`div_`); scaled by the temperature into a copy, and its
gradient; with the entropy's softmax kept (verl at 1dda039, `verl/workers/engine/fsdp/transformer_impl.py`,
`inplace_backward`). Vocabulary-parallel: fused in bf16; bf16 and the fp32 copy that becomes its gradient; with the
gradient's cast to bf16 beside it. Fused with the head: a chunk at a time, not worth counting (arXiv 2411.09009), or one
copy in bf16."""


def logits_term(shape: ModelShape, layout: TrainLayout, tokens: float, *, with_grads: bool) -> Term:
    """Return the logits of ``tokens`` (per device), of which `logits_tokens` stand at once."""
    standing = tokens if layout.logits_tokens is None else min(tokens, float(layout.logits_tokens))
    numbers = standing * shape.vocab_size / layout.tensor
    low, mid, high = BYTES_EACH[layout.loss, with_grads]
    return Term(name="logits", low=low * numbers, mid=mid * numbers, high=high * numbers, source=SOURCE)
