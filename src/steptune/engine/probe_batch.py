"""Rows as long as the job's own, made before anything has run: the probe's input.

Prompts are training problems; completions are as long as their demonstrations, which is what the model has
learnt to write. Only lengths matter to cost, so the tokens are random.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from steptune.core.job import AlgorithmSpec, JobSpec
from steptune.engine.plan import Layout
from steptune.engine.types import PromptBatch, RolloutBatch, ScoredBatch
from steptune.envs.math.problems import train_problem
from steptune.envs.vocabulary import vocabulary_of

Row = tuple[int, int]
"""Prompt and completion length."""

STILL_LR = 1e-30
"""Learning rate of a probe: no weight moves by it, but for a zero by as much. Every measurement trains the same model
on random tokens; at the job's own rate hundreds of such updates wander off, and at a large one end in NaN, which no
trainer steps over."""


def probe_algorithm(job: JobSpec) -> AlgorithmSpec:
    """Return the job's algorithm as a probe trains with it: one update, no reference, and the weights stay."""
    still = {"lr": STILL_LR, "weight_decay": 0.0}
    return job.algorithm.model_copy(update={"num_updates": 1, "kl_coef": 0.0, "group_size": 2, **still})


def typical_rows(job: JobSpec) -> list[Row]:
    """Return prompt and completion lengths of training problems, shortest row first.

    As many as a step has rollouts: neighbours in this list then differ as much as neighbours in a step do. Attention
    runs once per width in a packed micro-batch, and with more rows its neighbours were of one width (7 % too cheap).
    """
    vocabulary, workload = vocabulary_of(job), job.workload
    problems = (
        train_problem(workload.seed, index, workload.levels) for index in range(job.algorithm.rollouts_per_step)
    )
    lengths = (
        (len(vocabulary.encode_prompt(p.text)), len(vocabulary.encode_completion(p.demonstration))) for p in problems
    )
    limit = job.algorithm.max_completion_len
    return sorted(((prompt, min(completion, limit)) for prompt, completion in lengths), key=sum)


MIN_PADDED_ROWS = 8
"""Rows of the smallest padded micro-batch worth pricing: TRL's default `per_device_train_batch_size`. Those rows are
often one group, so they are alike; rows of every length made small padded micro-batches look 6 % too dear."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Picked:
    """Rows of one probe batch: ``Picked(rows=[(9, 12), (9, 14), ...], group_B=[0, 0, ...])``."""

    rows: list[Row]
    group_B: list[int]
    """Rows of one number share a prompt."""


def pick_rows(rows: Sequence[Row], layout: Layout, num_positions: int, *, group_size: int) -> Picked:
    """Return an even number of rows that fill about ``num_positions`` under ``layout``.

    Packed micro-batches are cut from sorted rows, so theirs are neighbours around the median. Small padded ones are
    as many rows as a micro-batch has at least, all of the length that fills it; large ones take rows of every length
    and are as wide as the longest. A shared prefix takes groups of about ``group_size``.
    """
    if layout == "shared_prefix":
        return _groups(rows, num_positions, group_size)
    picked = _packed_rows(rows, num_positions) if layout == "packed" else _padded_rows(rows, num_positions)
    return Picked(rows=picked, group_B=list(range(len(picked))))


def _padded_rows(rows: Sequence[Row], num_positions: int) -> list[Row]:
    widest = sum(rows[-1])
    if num_positions < MIN_PADDED_ROWS * widest:
        return [_row_of(rows, num_positions / MIN_PADDED_ROWS)] * MIN_PADDED_ROWS
    num_rows = max(2, 2 * round(num_positions / widest / 2))
    pool = _repeated(rows, num_rows)
    return [pool[len(pool) - 1 - i * len(pool) // num_rows] for i in range(num_rows)]


def _packed_rows(rows: Sequence[Row], num_positions: int) -> list[Row]:
    width = sum(map(sum, rows)) / len(rows)
    num_rows = max(2, 2 * round(num_positions / width / 2))
    pool = _repeated(rows, num_rows)
    return _middle(pool, len(pool) // 2, num_rows)


def _groups(rows: Sequence[Row], num_positions: int, group_size: int) -> Picked:
    """Return groups of every length, as a step has them, each with the completions of its prompt's neighbours.

    Where a whole number of groups does not fill the size, all have a few rows more or fewer.
    """
    prompt, completion = (sum(lengths) / len(rows) for lengths in zip(*rows, strict=True))
    num_groups = max(1, round(num_positions / (prompt + group_size * completion)))
    num_rows = max(1, round((num_positions / num_groups - prompt) / completion))
    num_rows += num_groups * num_rows % 2
    pool = _repeated(rows, num_rows)
    picked, group_B = list[Row](), list[int]()
    for group in range(num_groups):
        centre = (2 * group + 1) * len(pool) // (2 * num_groups)
        neighbours = _middle(pool, centre, num_rows)
        picked += [(pool[centre][0], length) for _, length in neighbours]
        group_B += [group] * num_rows
    return Picked(rows=picked, group_B=group_B)


def _repeated(rows: Sequence[Row], num_rows: int) -> list[Row]:
    """Return the rows in their order, each as often as it takes to have ``num_rows`` of them."""
    repeats = -(-num_rows // len(rows))
    return [row for row in rows for _ in range(repeats)]


def _middle(pool: Sequence[Row], centre: int, num_rows: int) -> list[Row]:
    """Return ``num_rows`` neighbours around ``centre``, or at the pool's end next to it."""
    first = min(max(centre - num_rows // 2, 0), len(pool) - num_rows)
    return list(pool[first : first + num_rows])


def _row_of(rows: Sequence[Row], length: float) -> Row:
    """Return the row whose length is nearest."""
    return min(rows, key=lambda row: abs(sum(row) - length))


def batch_of(picked: Picked, vocab_size: int) -> ScoredBatch:
    """Return a scored batch of these lengths with random tokens and advantages; a group's rows share their prompt."""
    num_rows, generator = len(picked.rows), torch.Generator().manual_seed(0)
    prompt_B, completion_B = torch.tensor(picked.rows).unbind(1)
    mask_BT = torch.arange(int(completion_B.max())) < completion_B[:, None]
    group_B, numbers_B = torch.tensor(picked.group_B), torch.arange(num_rows)
    tokens_BP = torch.randint(3, vocab_size, (num_rows, int(prompt_B.max())), generator=generator)[group_B]
    rollout = RolloutBatch(
        prompts=PromptBatch(
            tokens_BP=tokens_BP, lengths_B=prompt_B, group_B=group_B, problem_B=numbers_B, sample_B=numbers_B
        ),
        completion_BT=torch.randint(3, vocab_size, mask_BT.shape, generator=generator),
        lengths_B=completion_B,
        logprobs_BT=-mask_BT.float(),
        versions_BT=torch.where(mask_BT, 0, -1).int(),
        finished_B=torch.ones(num_rows, dtype=torch.bool),
        entropy=1.0,
    )
    advantage_B = torch.randn(num_rows, generator=generator)
    return ScoredBatch(
        rollout=rollout,
        raw_reward_B=advantage_B,
        reward_B=advantage_B,
        advantage_B=advantage_B,
        train_mask_B=torch.ones(num_rows, dtype=torch.bool),
    )
