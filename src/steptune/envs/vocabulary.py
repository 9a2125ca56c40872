"""A job's vocabulary: what turns its problems into token ids and its completions back into text.

Either the math workload's own (a few dozen whole phrases) or the one of the model folder that the job names.
"""

from dataclasses import dataclass
from functools import cache
from typing import final

from steptune.core.job import PROBLEM, JobSpec
from steptune.core.pretrained import Pretrained
from steptune.envs.hf_tokenizer import HfTokenizer
from steptune.envs.math.tokenizer import MathTokenizer


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Vocabulary:
    """A tokenizer and the prompt that its problems are put in."""

    tokenizer: MathTokenizer | HfTokenizer
    prompt: str = PROBLEM
    """`{problem}` stands for the problem."""
    context_len: int | None = None
    """Tokens of prompt and completion together that the model takes; None knows no bound."""

    @property
    def size(self) -> int:
        """Number of token ids."""
        return self.tokenizer.vocab_size

    @property
    def pad_id(self) -> int:
        """Fills rows up; no length covers it."""
        return self.tokenizer.pad_id

    @property
    def eos_id(self) -> int:
        """Ends a completion, and demonstrations."""
        return self.tokenizer.eos_id

    @property
    def other_eos_ids(self) -> tuple[int, ...]:
        """End a completion too."""
        return self.tokenizer.other_eos_ids

    def encode_prompt(self, problem: str) -> list[int]:
        """Return the ids of the prompt that asks ``problem``."""
        return self.tokenizer.encode_prompt(self.prompt.replace(PROBLEM, problem))

    def encode_completion(self, text: str) -> list[int]:
        """Return the ids of ``text`` and the end of sequence."""
        return self.tokenizer.encode_completion(text)

    def decode(self, ids: list[int]) -> str:
        """Return the text of a completion."""
        return self.tokenizer.decode(ids)


MATH = Vocabulary(tokenizer=MathTokenizer())
"""The math workload's own."""


def vocabulary_of(job: JobSpec) -> Vocabulary:
    """Return the job's vocabulary; a folder's tokenizer is read once per process.

    Raises:
        ModelError: the tokenizer's files have gone or changed, or the package `tokenizers` is missing.
    """
    pretrained = job.model.pretrained
    if pretrained is None:
        return MATH
    return Vocabulary(
        tokenizer=_tokenizer_of(pretrained.model_dump_json()),
        prompt=job.workload.prompt,
        context_len=pretrained.context_len,
    )


@cache
def _tokenizer_of(pretrained_json: str) -> HfTokenizer:
    return HfTokenizer(Pretrained.model_validate_json(pretrained_json))
