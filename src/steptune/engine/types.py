"""What passes between rollout, reward and trainer. Shape letters: B rows, P prompt token, T completion token."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, kw_only=True, slots=True)
class PromptBatch:
    """Prompts of one rollout batch, one row per *rollout*; the rows of a group are adjacent.

    Example: 2 prompts x group size 2 gives 4 rows with ``group_B = [0, 0, 1, 1]``.
    """

    tokens_BP: Tensor
    """int64, right-padded with the pad id."""
    lengths_B: Tensor
    """int64, prompt tokens per row."""
    group_B: Tensor
    """int64, index of the row's prompt inside this batch."""
    problem_B: Tensor
    """int64, index of the problem in the training stream; keys the sampling noise."""
    sample_B: Tensor
    """int64, index of the row inside its group; keys the sampling noise."""

    @property
    def num_rows(self) -> int:
        """Rollouts in the batch."""
        return self.tokens_BP.shape[0]

    def to(self, device: torch.device) -> "PromptBatch":
        """Return it on ``device``."""
        return PromptBatch(
            tokens_BP=self.tokens_BP.to(device),
            lengths_B=self.lengths_B.to(device),
            group_B=self.group_B.to(device),
            problem_B=self.problem_B.to(device),
            sample_B=self.sample_B.to(device),
        )

    def take(self, row_k: Tensor) -> "PromptBatch":
        """Return some rows; groups keep their numbers."""
        return PromptBatch(
            tokens_BP=self.tokens_BP[row_k],
            lengths_B=self.lengths_B[row_k],
            group_B=self.group_B[row_k],
            problem_B=self.problem_B[row_k],
            sample_B=self.sample_B[row_k],
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class RolloutBatch:
    """Finished rollouts: everything the trainer may know of them, nothing it could recompute differently.

    Token ids are recorded, never re-tokenised; log-probs are those of the *sampling* distribution
    (temperature applied); the version of the weights is recorded per token.
    """

    prompts: PromptBatch
    completion_BT: Tensor
    """int64, right-padded with the pad id; the end-of-sequence token is included when it was sampled."""
    lengths_B: Tensor
    """int64, completion tokens per row (at least 1)."""
    logprobs_BT: Tensor
    """float32, log-prob of each sampled token under the sampling distribution; 0 in the padding."""
    raw_logprobs_BT: Tensor | None = None
    """float32, the same at temperature 1, the model's own; None where temperature 1 was sampled from."""
    versions_BT: Tensor
    """int32, weight version that sampled each token; -1 in the padding."""
    finished_B: Tensor
    """bool, True where the row ended with the end-of-sequence token, False where the limit cut it."""
    entropy: float
    """Mean entropy of the sampling distribution over sampled tokens, in nats."""
    routes_BLJk: Tensor | None = None
    """int16, experts by joined position and layer (`routes`); None where they were not recorded."""

    @property
    def mask_BT(self) -> Tensor:
        """bool, True on real completion tokens."""
        return torch.arange(self.completion_BT.shape[1])[None, :] < self.lengths_B[:, None]


@dataclass(frozen=True, kw_only=True, slots=True)
class RolloutTrace:
    """Counts of one generation: what it cost, not what it said."""

    prefill_tokens: int
    """Prompt positions computed (padding included)."""
    decode_iterations: int
    reused_tokens: int = 0
    """Prompt positions taken from an earlier turn instead."""
    resumed_tokens: int = 0
    """Positions of rows that go on which were computed again, under newer weights; part of `prefill_tokens`."""
    running_I: tuple[int, ...]
    """Rows in the decode batch at each iteration: the drain when finished rows leave. Empty where a foreign engine
    does not say."""
    prefill_s: float | None
    decode_s: float | None
    """None where a foreign engine does not say."""

    @property
    def timed_s(self) -> tuple[float, float]:
        """Prefill and decode seconds, of an engine that knows them."""
        assert self.prefill_s is not None, "only the embedded engine is probed"
        assert self.decode_s is not None, "only the embedded engine is probed"
        return self.prefill_s, self.decode_s


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoredBatch:
    """A rollout batch with its rewards and advantages: the trainer's input."""

    rollout: RolloutBatch
    raw_reward_B: Tensor
    """float32, the verifier's verdict."""
    reward_B: Tensor
    """float32, after shaping (overlong punishment)."""
    advantage_B: Tensor
    """float32, one per row."""
    train_mask_B: Tensor
    """bool, False where the row is left out of the loss (masked truncation)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedBatch:
    """A scored batch and the log-probs that must be known before the first update."""

    scored: ScoredBatch
    old_logprobs_BT: Tensor | None
    """Under the weights before the first update; None where the first training forward gives them."""
    ref_logprobs_BT: Tensor | None
    """Under the SFT start; None without a KL term."""
