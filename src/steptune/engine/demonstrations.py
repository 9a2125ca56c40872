"""Worked problems as supervised batches, laid out like the trainer's packed rollouts: no padding computed.

Shape letters: B rows, L token of a joined row, T completion token.
"""

from collections.abc import Sequence

import torch

from steptune.core.errors import JobError, explain
from steptune.core.job import JobSpec
from steptune.engine.inputs import JoinedRows, MicroInputs, build_inputs
from steptune.engine.plan import plan_batch
from steptune.envs.math.problems import Problem, train_problem
from steptune.envs.vocabulary import MATH, Vocabulary

SEED_STRIDE = 1_000_000_007
"""Problems between two SFT seeds (prime; only needs to exceed steps x batch)."""


def demonstrated_problems(job: JobSpec, step: int) -> list[Problem]:
    """Return the problems of one SFT step: the training stream at negative indices, which RL never asks for."""
    first = job.sft.seed * SEED_STRIDE + step * job.sft.batch_size
    indices = range(first, first + job.sft.batch_size)
    return [train_problem(job.workload.seed, -1 - index, job.workload.levels) for index in indices]


def demonstration_inputs(problems: Sequence[Problem], vocabulary: Vocabulary = MATH) -> MicroInputs:
    """Return prompt and demonstration of every problem as one packed micro-batch; targets are the completions.

    Raises:
        JobError: a row is longer than the model's context.
    """
    prompts = [vocabulary.encode_prompt(problem.text) for problem in problems]
    completions = [vocabulary.encode_completion(problem.demonstration) for problem in problems]
    prompt_lengths, lengths = [len(row) for row in prompts], [len(row) for row in completions]
    whole = [prompt + completion for prompt, completion in zip(prompts, completions, strict=True)]
    _check_context(max(map(len, whole)), vocabulary.context_len)
    num_tokens = sum(map(len, whole))
    plan = plan_batch(
        prompt_lengths, lengths, layout="packed", token_budget=num_tokens, max_completion_len=max(lengths)
    )
    (micro,) = plan.micro_batches
    joined = JoinedRows(
        tokens_BL=_padded(whole, vocabulary.pad_id),
        prompt_lengths_B=torch.tensor(prompt_lengths),
        completion_BT=_padded(completions, vocabulary.pad_id),
        mask_BT=torch.arange(max(lengths)) < torch.tensor(lengths)[:, None],
    )
    return build_inputs(joined, micro)


def _check_context(longest: int, context_len: int | None) -> None:
    if context_len is not None and longest > context_len:
        raise JobError(
            explain(
                "prompt and demonstration are longer than the model's context",
                got=f"{longest} tokens",
                allowed=f"{context_len} together",
                hint="shorten `workload.prompt`, take easier `workload.levels`, or go without SFT: `sft.num_steps = 0`",
            )
        )


def _padded(rows: Sequence[Sequence[int]], pad_id: int) -> torch.Tensor:
    width = max(map(len, rows))
    return torch.tensor([[*row, *[pad_id] * (width - len(row))] for row in rows])
