"""A rollout batch as requests, and the answers as a rollout batch.

Rows that are one prompt with one limit and consecutive sample numbers go as one request, so that the server computes
the prompt once. Noise is that of (seed, problem, sample) however rows are grouped: vLLM gives completion i of a request
the request's seed + i. Shape letters: B rows, T completion token.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from steptune.core.errors import TrialError, explain
from steptune.engine.ends import is_end
from steptune.engine.foreign.messages import Ask, Choice
from steptune.engine.sampling import noise_keys
from steptune.engine.types import PromptBatch, RolloutBatch

SEED_BITS = 62
"""vLLM takes signed 64-bit seeds; sample numbers are added to ours."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RowAsk:
    """A request for rows ``first`` to ``first + ask.num_samples``."""

    first: int
    ask: Ask


@dataclass(frozen=True, kw_only=True, slots=True)
class Sampling:
    """What all rows of a batch have in common."""

    temperature: float
    """0 takes the likeliest token."""
    is_forced: bool
    eos_ids: tuple[int, ...]
    pad_id: int


def row_asks(prompts: PromptBatch, limit_B: Tensor, seed: int | Tensor, how: Sampling) -> list[RowAsk]:
    """Return the requests, in the rows' order."""
    lengths, limits = prompts.lengths_B.tolist(), limit_B.tolist()
    tokens = [row[:length] for row, length in zip(prompts.tokens_BP.tolist(), lengths, strict=True)]
    key_B = noise_keys(seed, prompts.problem_B, torch.zeros_like(prompts.sample_B)) & (2**SEED_BITS - 1)
    keys, samples = key_B.tolist(), prompts.sample_B.tolist()
    same = [(tokens[row], limits[row], keys[row], samples[row] - row) for row in range(len(tokens))]
    return [
        RowAsk(
            first=first,
            ask=Ask(
                prompts=[tokens[first]],
                num_samples=num_rows,
                max_tokens=limits[first],
                is_forced=how.is_forced,
                temperature=how.temperature,
                seed=keys[first] + samples[first],
                eos_ids=how.eos_ids,
            ),
        )
        for first, num_rows in _runs(same)
    ]


def rollout_batch(prompts: PromptBatch, rows: Sequence[Choice], version: int, how: Sampling) -> RolloutBatch:
    """Return the batch; the entropy is estimated as the mean of -log-prob, for the server keeps no distribution.

    Raises:
        TrialError: a row without tokens or without the log-prob of each.
    """
    scored = [checked(choice) for choice in rows]
    length_B = torch.tensor([len(choice.token_ids) for choice in rows])
    width = int(length_B.max())
    mask_BT = torch.arange(width) < length_B[:, None]
    logprob_BT = padded(scored, width)
    completion_BT = torch.tensor([c.token_ids + [how.pad_id] * (width - len(c.token_ids)) for c in rows])
    ended_B = is_end(completion_BT.gather(1, length_B[:, None] - 1)[:, 0], how.eos_ids)
    return RolloutBatch(
        prompts=prompts,
        completion_BT=completion_BT,
        lengths_B=length_B,
        logprobs_BT=logprob_BT,
        versions_BT=torch.where(mask_BT, version, -1).int(),
        finished_B=torch.ones_like(ended_B) if how.is_forced else ended_B,
        entropy=-float(logprob_BT[mask_BT].double().mean()),
    )


def checked(choice: Choice) -> list[float]:
    """Return a completion's log-probs.

    Raises:
        TrialError: it has no tokens, or not one log-prob for each.
    """
    found = [] if choice.logprobs is None else choice.logprobs.token_logprobs
    if not choice.token_ids or len(found) != len(choice.token_ids):
        raise TrialError(
            explain(
                "every token of a foreign completion needs its log-prob",
                got=f"{len(choice.token_ids)} tokens, {len(found)} log-probs, finish reason {choice.finish_reason}",
                allowed="as many, at least one",
                hint="was the request aborted? read the server's log",
            )
        )
    return found


def padded(rows: Sequence[Sequence[float]], width: int) -> Tensor:
    """Return float32 [B, T], 0 in the padding."""
    return torch.tensor([[*row, *[0.0] * (width - len(row))] for row in rows], dtype=torch.float32)


def _runs(items: Sequence[object]) -> Iterator[tuple[int, int]]:
    """Yield start and length of every run of equal neighbours."""
    start = 0
    for index in range(1, len(items) + 1):
        if index == len(items) or items[index] != items[start]:
            yield start, index - start
            start = index
