"""What a decode iteration does with its logits: draw a token, take the likeliest, or follow a given completion.

Two log-probs are recorded. The *processed* one is that of the sampling distribution, softmax(logits / temperature),
which is what importance ratios need; the *raw* one is the model's own, temperature 1. At temperature 1 they are equal
and only one is kept. Surprise: a token that may not be drawn (the end, while a forced length is not reached) still
counts in both, so that they stay the policy's.

Shape letters: n running rows, V vocab, B rows of the batch, T completion token.
"""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from steptune.engine.sampling import draw, uniforms
from steptune.engine.slots import GENERATED, KEY, LIMIT, ROW, Slots
from steptune.engine.softmax import Softmax, softmax


@dataclass(frozen=True, kw_only=True, slots=True)
class Chosen:
    """One token of every running row."""

    token_n: Tensor
    logprob_n: Tensor
    """Under the sampling distribution."""
    raw_logprob_n: Tensor | None
    """At temperature 1; None where that is the sampling distribution."""
    entropy_n: Tensor
    """Of the sampling distribution, in nats."""


Choose = Callable[[Tensor, Slots], Chosen]
"""(logits [n, V] float32, slots) -> what was chosen."""


def sampler(temperature: float, eos_ids: tuple[int, ...], *, is_forced: bool, greedy: bool) -> Choose:
    """Return keyed sampling from softmax(logits / temperature), or the most likely token."""

    def choose(logits_nV: Tensor, slots: Slots) -> Chosen:
        policy = _processed(logits_nV, temperature)
        weights_nV = policy.weights_nV
        if is_forced:
            may_end_n = slots.line(GENERATED) + 1 >= slots.line(LIMIT)
            for eos_id in eos_ids:
                weights_nV[:, eos_id] *= may_end_n
        if greedy:
            token_n = weights_nV.argmax(-1)
        else:
            token_n = draw(weights_nV, uniforms(slots.line(KEY), slots.line(GENERATED)))
        return _chosen(token_n, policy, logits_nV, temperature)

    return choose


def replayer(completion_BT: Tensor, temperature: float) -> Choose:
    """Return a choice that follows given completions."""

    def choose(logits_nV: Tensor, slots: Slots) -> Chosen:
        token_n = completion_BT[slots.line(ROW), slots.line(GENERATED)]
        return _chosen(token_n, _processed(logits_nV, temperature), logits_nV, temperature)

    return choose


def _processed(logits_nV: Tensor, temperature: float) -> Softmax:
    return softmax(logits_nV if temperature == 1 else logits_nV / temperature)


def _chosen(token_n: Tensor, policy: Softmax, logits_nV: Tensor, temperature: float) -> Chosen:
    raw_logprob_n = None
    if temperature != 1:
        raw_logprob_n = logits_nV.gather(1, token_n[:, None])[:, 0] - logits_nV.logsumexp(-1)
    return Chosen(
        token_n=token_n, logprob_n=policy.logprob(token_n), raw_logprob_n=raw_logprob_n, entropy_n=policy.entropy_n
    )
