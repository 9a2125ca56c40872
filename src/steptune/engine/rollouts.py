"""What a source of rollouts needs of an engine, this project's own or a foreign one."""

from collections.abc import Mapping
from typing import Protocol

from torch import Tensor

from steptune.engine.events import Recorder
from steptune.engine.types import PromptBatch, RolloutBatch, RolloutTrace


class Rollouts(Protocol):
    """Takes weights, makes completions. `RolloutEngine` says what every argument means."""

    version: int
    """Of the weights that the next completions come from."""

    def load(self, state: Mapping[str, Tensor], version: int) -> None:
        """Take over new weights."""
        ...

    def generate(
        self,
        prompts: PromptBatch,
        *,
        max_completion_len: int,
        temperature: float,
        seed: int | Tensor,
        limits_B: Tensor | None = None,
        forced_lengths_B: Tensor | None = None,
        greedy: bool = False,
        recorder: Recorder | None = None,
    ) -> tuple[RolloutBatch, RolloutTrace]:
        """Sample one completion per row."""
        ...

    def score(self, prompts: PromptBatch, completion_BT: Tensor, lengths_B: Tensor, *, temperature: float) -> Tensor:
        """Return log-probs [B, T] of given completions, 0 in the padding."""
        ...
