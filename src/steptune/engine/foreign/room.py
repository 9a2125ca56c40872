"""How many tokens a job's prompts take on the server, and the cache's block that lets a group share them. Pure.

vLLM shares whole blocks only and always computes a prompt's last token, so of P tokens (P - 1) // block blocks are
shared: blocks of 128 share nothing of a prompt of 128 tokens, and blocks of 32 share 96 of them.
"""

from collections.abc import Sequence

from steptune.core.job import JobSpec
from steptune.engine.foreign.settings import BLOCK_SIZES
from steptune.engine.produce import SEED_STRIDE
from steptune.envs.math.problems import train_problem
from steptune.envs.vocabulary import vocabulary_of

NUM_SAMPLED = 512
"""Prompts looked at before a run; the stream of problems has no end, but each level's problems are bounded."""


def sampled_prompt_lengths(job: JobSpec, seed: int) -> list[int]:
    """Return the tokens of the first prompts of a run's stream."""
    vocabulary, workload = vocabulary_of(job), job.workload
    problems = (train_problem(workload.seed, seed * SEED_STRIDE + i, workload.levels) for i in range(NUM_SAMPLED))
    return [len(vocabulary.encode_prompt(problem.text)) for problem in problems]


def prompt_room(lengths: Sequence[int]) -> int:
    """Return the tokens to keep for a prompt: the longest seen, and as much again as prompts differ by.

    >>> prompt_room([310, 350])
    390
    """
    return max(lengths) + (max(lengths) - min(lengths))


def shared_tokens(lengths: Sequence[int], block_size: int) -> int:
    """Return the tokens of these prompts that a second row of each group finds in the cache.

    >>> shared_tokens([20, 33, 128], 32)
    128
    """
    return sum((length - 1) // block_size * block_size for length in lengths)


def block_size_for(lengths: Sequence[int]) -> int:
    """Return the block that shares most, the largest of those that share as much.

    >>> block_size_for([40, 100]), block_size_for([9, 14])
    (32, 128)
    """
    return max(BLOCK_SIZES, key=lambda block_size: shared_tokens(lengths, block_size))
