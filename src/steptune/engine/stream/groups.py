"""A group in the making, one that is complete, and one that is taken out unfinished.

Shape letters: g rows of the group, T completion token, L position, J layer, k chosen experts.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from steptune.engine.outputs import Outputs, completed
from steptune.engine.types import PromptBatch, RolloutBatch


@dataclass(frozen=True, kw_only=True, slots=True)
class Said:
    """What every row of a group has said so far, padded to one width; meaningless behind a row's end."""

    completion_gT: Tensor
    logprob_gT: Tensor
    raw_logprob_gT: Tensor | None
    entropy_gT: Tensor
    version_gT: Tensor
    length_g: Tensor
    is_done_g: Tensor
    routes_gLJk: Tensor | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Start:
    """A group as it enters the stream: a new one, or one that goes on."""

    number: int
    """Its caller's name for it."""
    prompts: PromptBatch
    limit_g: Tensor
    """Completion tokens every row may have."""
    said: Said | None = None
    """None: nothing yet."""

    @property
    def num_tokens(self) -> int:
        """Completion tokens so far."""
        return 0 if self.said is None else int(self.said.length_g.sum())

    @property
    def oldest_version(self) -> int | None:
        """Version that sampled its oldest token; None where there is no token yet."""
        if self.said is None or not self.num_tokens:
            return None
        column_T = torch.arange(self.said.version_gT.shape[1])
        return int(self.said.version_gT[column_T < self.said.length_g[:, None]].min())


@dataclass(frozen=True, kw_only=True, slots=True)
class Done:
    """A complete group."""

    number: int
    batch: RolloutBatch


def rollout_of(start: Start, said: Said, *, pad_id: int, eos_ids: tuple[int, ...], is_forced: bool) -> RolloutBatch:
    """Return a complete group's rollouts. Forced lengths count as finished."""
    outputs = Outputs(
        token_BT=said.completion_gT,
        logprob_BT=said.logprob_gT,
        raw_logprob_BT=said.raw_logprob_gT,
        entropy_BT=said.entropy_gT,
        routes_BLJk=said.routes_gLJk,
    )
    return completed(
        start.prompts, outputs, said.length_g, said.version_gT, pad_id=pad_id, eos_ids=eos_ids, is_forced=is_forced
    )
