"""How many held-out rows are generated at once: as many as fit in a fixed number of bytes. Pure.

So a long context makes an evaluation slower and not larger; the memory forecast asks the same function. The surprise:
fewer rows at once give the same answers. Noise belongs to a problem and a position, so the batch that a row runs in
moves its log-probs by rounding only.
"""

from steptune.core.model import HybridFields, ModelSpec

MAX_ROWS = 512
"""Rows beyond which a decode iteration gains nothing: 2,000 problems of the example take about 2 s on a shared core
(Intel Xeon, torch 2.13)."""

MAX_BYTES = 256e6
"""Cache and logits of all rows at once. 512 rows of SmolLM2-135M of 128 tokens each would be 3.3 GB; these are 39."""

LOGITS_COPIES = 3
"""float32 rows of logits that stand at once in a decode iteration: the model's own, those over the temperature, and the
softmax's weights (`choose`; two at temperature 1)."""

BYTES_FP32 = 4
"""An evaluation is in float32, whatever the rollout's format."""


def evaluation_row_bytes(model: ModelSpec, *, num_tokens: int, longest: int) -> int:
    """Return the bytes that one row takes: its cache, recurrent states and logits.

    Args:
        model: shape.
        num_tokens: rows of the embedding.
        longest: positions of a cache slot: longest prompt and completion.
    """
    full = sum(model.has_full_attention(layer) for layer in range(model.num_layers))
    numbers = 2 * full * model.kv_width * longest + LOGITS_COPIES * num_tokens
    if isinstance(model, HybridFields):
        numbers += (model.num_layers - full) * model.state_numbers
    return BYTES_FP32 * numbers


def evaluation_rows(model: ModelSpec, *, num_problems: int, num_tokens: int, longest: int) -> int:
    """Return how many of ``num_problems`` rows are generated at once, at least one; see `evaluation_row_bytes`."""
    fitting = MAX_BYTES // evaluation_row_bytes(model, num_tokens=num_tokens, longest=longest)
    return max(1, min(MAX_ROWS, num_problems, int(fitting)))
