"""Did the weights arrive? Fixed tokens' log-probs must have moved in the foreign engine as they did in the trainer.

A server may answer "reloaded" and keep a part of the old weights (vLLM 0.32 did with tied embeddings, see `handover`).
The gap of every step would show it as a mismatch of kernels; this says what it is, at the first update that can tell.

Shape letters: N tokens scored, V vocab.
"""

from typing import Literal, Protocol, final

import torch
from torch import Tensor

from steptune.core.errors import TrialError, explain
from steptune.engine.attention import attend_runs
from steptune.engine.context import Context
from steptune.engine.micro_batch import Run
from steptune.engine.model import Transformer

NUM_TOKENS = 24
"""Tokens of the fixed prompt."""

NOISE = {"fp32": 1e-4, "bf16": 0.03}
"""Mean difference of two engines' log-probs that is rounding, in nats. Measured: 5e-7 in fp32, 0.01 in bf16."""

TELLING = 4.0
"""Multiple of the noise that the trainer's log-probs must have moved by before anything is said."""

Verdict = Literal["too_early", "arrived"]


class Scores(Protocol):
    """Scores tokens at temperature 1."""

    def score(self, tokens: list[int]) -> list[float]:
        """Return the log-prob of every token but the first."""
        ...


@final
class ArrivalProbe:
    """Compares with what both sides said when it was made, so that small updates add up until they can tell."""

    def __init__(self, model: Transformer, foreign: Scores, dtype: Literal["fp32", "bf16"], vocab_size: int) -> None:
        """Score the fixed tokens on both sides, at the weights both have now.

        Raises:
            TrialError: the server died or answered nonsense.
        """
        self._model, self._foreign, self._noise = model, foreign, NOISE[dtype]
        self._tokens = [(7 * i + 1) % vocab_size for i in range(NUM_TOKENS)]
        self._trainer_N, self._foreign_N = self._both()

    def check(self) -> Verdict:
        """Compare both sides' movement since the start.

        Raises:
            TrialError: the foreign engine's log-probs did not move with the trainer's.
        """
        trainer_N, foreign_N = self._both()
        moved_N = trainer_N - self._trainer_N
        moved = float(moved_N.abs().mean())
        apart = float((foreign_N - self._foreign_N - moved_N).abs().mean())
        if not moved >= TELLING * self._noise:
            return "too_early"
        if apart <= moved / 2:
            return "arrived"
        raise TrialError(
            explain(
                "the foreign rollout engine does not have the trainer's weights",
                got=f"log-probs of fixed tokens moved by {moved:.3g} nats here and otherwise there, {apart:.3g} apart",
                allowed=f"at most {moved / 2:.3g} apart",
                hint="the server kept old weights at a reload; start the run again, or use rollout_engine `embedded`",
            )
        )

    def _both(self) -> tuple[Tensor, Tensor]:
        return own_logprobs(self._model, self._tokens), torch.tensor(self._foreign.score(self._tokens))


def own_logprobs(model: Transformer, tokens: list[int]) -> Tensor:
    """Return float32 [N - 1], the model's own log-prob of every token but the first."""
    device = model.embed.weight.device
    token_N, position_N = torch.tensor(tokens, device=device), torch.arange(len(tokens), device=device)
    with torch.no_grad():
        context = Context(attend=attend_runs([Run(len(tokens), 1)], device=device))
        logits_NV = model.logits(model.hidden(token_N, position_N, context)).float()
    logprob_NV = logits_NV.log_softmax(-1)
    return logprob_NV[:-1].gather(1, token_N[1:, None])[:, 0].cpu()
