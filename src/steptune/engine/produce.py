"""The producer: prompts in, verified rollouts out. It holds rollout and environment, never the trainer.

In a synchronous run it lives in the trainer's process, in a one-step-off run in its own; the code is the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from steptune.core.job import JobSpec
from steptune.core.phase import Role
from steptune.core.profile import SampledLengths
from steptune.engine.algorithms import mixed_groups
from steptune.engine.events import Recorder
from steptune.engine.knobs import EngineKnobs
from steptune.engine.model import Transformer
from steptune.engine.rollout import RolloutEngine
from steptune.engine.rollouts import Rollouts
from steptune.engine.routes import NOT_RECORDED
from steptune.engine.types import PromptBatch, RolloutBatch, RolloutTrace
from steptune.envs.math.problems import Problem, train_problem
from steptune.envs.math.tokenizer import MathTokenizer
from steptune.envs.math.verify import reward
from steptune.envs.vocabulary import MATH, Vocabulary, vocabulary_of

TOKENIZER = MathTokenizer()
"""The math workload's own vocabulary; it has no state."""

PAD = MathTokenizer.pad_id
"""What fills joined batches up: an id of every vocabulary, and never looked at, since lengths say where rows end."""

SEED_STRIDE = 1_000_003
"""Distance between the problem streams of two run seeds (prime; only needs to exceed steps x prompts x rounds)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Produced:
    """One step's verified rollouts."""

    batch: RolloutBatch
    raw_reward_B: Tensor
    traces: tuple[RolloutTrace, ...]
    """One per round of generation."""
    mixed_groups_frac: float
    """Groups with at least two different raw rewards, before any filtering."""


@final
class Producer:
    """Generates and verifies the rollouts of any step, from the step's number alone."""

    def __init__(
        self, job: JobSpec, engine: Rollouts, seed: int, forced: SampledLengths | None, recorder: Recorder
    ) -> None:
        self.job, self.engine, self.seed, self.forced, self.recorder = job, engine, seed, forced, recorder
        self.vocabulary = vocabulary_of(job)

    def produce(self, step: int) -> Produced:
        """Return the rollouts of ``step``: the same step, seed and weights give the same rollouts."""
        algorithm = self.job.algorithm
        rounds = algorithm.max_sampling_rounds if algorithm.dynamic_sampling and self.forced is None else 1
        kept: list[tuple[RolloutBatch, Tensor, RolloutTrace, Tensor]] = []
        num_mixed = 0
        for round_index in range(rounds):
            kept.append(self._round(step, round_index))
            num_mixed += int(kept[-1][3].sum())
            if num_mixed >= algorithm.prompts_per_step:
                break
        return self._select(kept)

    def _round(self, step: int, round_index: int) -> tuple[RolloutBatch, Tensor, RolloutTrace, Tensor]:
        algorithm = self.job.algorithm
        problems, prompts = self._prompts(step, round_index)
        with self.recorder.span(Role.ROLLOUT, "rollout"):
            batch, trace = self.engine.generate(
                prompts,
                max_completion_len=algorithm.max_completion_len,
                temperature=algorithm.temperature,
                seed=self.seed,
                forced_lengths_B=self._forced_lengths(step),
                recorder=self.recorder,
            )
        with self.recorder.span(Role.ENVIRONMENT, "reward"):
            raw_reward_B = self.verify(batch, problems)
        return batch, raw_reward_B, trace, _mixed(raw_reward_B, algorithm.group_size)

    def _prompts(self, step: int, round_index: int) -> tuple[list[Problem], PromptBatch]:
        algorithm = self.job.algorithm
        found = [
            _problem(self.job, self.seed, step, round_index, number) for number in range(algorithm.prompts_per_step)
        ]
        problems, indices = [problem for problem, _ in found], [index for _, index in found]
        return problems, prompt_batch([p.text for p in problems], indices, algorithm.group_size, self.vocabulary)

    def group_prompts(self, place: int, tries: int) -> tuple[Problem, PromptBatch]:
        """Return one group's problem and rows: the synchronous step's at the same place, in its round ``tries``."""
        return group_prompts(self.job, self.seed, self.vocabulary, place, tries)

    def forced_group(self, place: int) -> Tensor | None:
        """Return one group's forced lengths, if lengths are forced."""
        step, number = divmod(place, self.job.algorithm.prompts_per_step)
        lengths_B, size = self._forced_lengths(step), self.job.algorithm.group_size
        return None if lengths_B is None else lengths_B[number * size : (number + 1) * size]

    def _forced_lengths(self, step: int) -> Tensor | None:
        if self.forced is None:
            return None
        rows = self.forced.rollouts_per_step
        num_steps = len(self.forced.completion) // rows
        start = (step % num_steps) * rows
        return torch.tensor(self.forced.completion[start : start + rows])

    def verify(self, batch: RolloutBatch, problems: Sequence[Problem]) -> Tensor:
        """Return the raw reward of every row; ``problems`` are those of the batch's groups, in order."""
        constant = self.job.workload.constant_reward
        if constant is not None:
            return torch.full((batch.prompts.num_rows,), constant)
        tokens, lengths = batch.completion_BT.tolist(), batch.lengths_B.tolist()
        group = batch.prompts.group_B.tolist()
        texts = [self.vocabulary.decode(row[:n]) for row, n in zip(tokens, lengths, strict=True)]
        return torch.tensor([reward(text, problems[g].answer) for text, g in zip(texts, group, strict=True)])

    def _select(self, rounds: list[tuple[RolloutBatch, Tensor, RolloutTrace, Tensor]]) -> Produced:
        """Keep mixed groups first, in order, then fill up with the others so that every step has equal size."""
        mixed_G = torch.cat([mixed for *_, mixed in rounds])
        traces = tuple(trace for _, _, trace, _ in rounds)
        frac = float(mixed_G.float().mean())
        if len(rounds) == 1:
            batch, raw_reward_B, _, _ = rounds[0]
            return Produced(batch=batch, raw_reward_B=raw_reward_B, traces=traces, mixed_groups_frac=frac)
        algorithm = self.job.algorithm
        order_G = torch.argsort(mixed_G.int(), descending=True, stable=True)[: algorithm.prompts_per_step]
        rows_B = (order_G[:, None] * algorithm.group_size + torch.arange(algorithm.group_size)).flatten()
        batch = take_rows(join_batches([batch for batch, *_ in rounds]), rows_B, algorithm.group_size)
        raw_reward_B = torch.cat([raw for _, raw, *_ in rounds])[rows_B]
        return Produced(batch=batch, raw_reward_B=raw_reward_B, traces=traces, mixed_groups_frac=frac)


def rollout_engine(job: JobSpec, knobs: EngineKnobs, shared: Transformer | None = None) -> RolloutEngine:
    """Return this project's engine for the job's model and vocabulary; ``shared`` is the trainer's model (alias)."""
    vocabulary = vocabulary_of(job)
    return RolloutEngine(
        job.model,
        knobs,
        vocab_size=vocabulary.size,
        pad_id=vocabulary.pad_id,
        eos_id=vocabulary.eos_id,
        other_eos_ids=vocabulary.other_eos_ids,
        shared=shared,
        context_len=vocabulary.context_len,
    )


def group_prompts(
    job: JobSpec, seed: int, vocabulary: Vocabulary, place: int, tries: int
) -> tuple[Problem, PromptBatch]:
    """Return the problem and rows of one place of the queue; see `Producer.group_prompts`."""
    step, number = divmod(place, job.algorithm.prompts_per_step)
    problem, index = _problem(job, seed, step, tries, number)
    return problem, prompt_batch([problem.text], [index], job.algorithm.group_size, vocabulary)


def _problem(job: JobSpec, seed: int, step: int, round_index: int, number: int) -> tuple[Problem, int]:
    algorithm, workload = job.algorithm, job.workload
    first = (step * algorithm.max_sampling_rounds + round_index) * algorithm.prompts_per_step
    index = seed * SEED_STRIDE + first + number
    return train_problem(workload.seed, index, workload.levels), index


def _mixed(raw_reward_B: Tensor, group_size: int) -> Tensor:
    """Return bool per group: at least two different raw rewards."""
    return mixed_groups(raw_reward_B, group_size=group_size)[::group_size]


def prompt_batch(
    texts: Sequence[str], indices: Sequence[int], group_size: int, vocabulary: Vocabulary = MATH
) -> PromptBatch:
    """Return one row per rollout: every problem repeated ``group_size`` times, rows of a group adjacent."""
    ids = [vocabulary.encode_prompt(text) for text in texts]
    width = max(map(len, ids))
    tokens_PW = torch.tensor([row + [vocabulary.pad_id] * (width - len(row)) for row in ids])
    return PromptBatch(
        tokens_BP=tokens_PW.repeat_interleave(group_size, dim=0),
        lengths_B=torch.tensor([len(row) for row in ids]).repeat_interleave(group_size),
        group_B=torch.arange(len(ids)).repeat_interleave(group_size),
        problem_B=torch.tensor(list(indices)).repeat_interleave(group_size),
        sample_B=torch.arange(group_size).repeat(len(ids)),
    )


def join_batches(batches: Sequence[RolloutBatch]) -> RolloutBatch:
    """Return the rows of all batches as one, padded to the widest."""
    prompts = [b.prompts for b in batches]
    raw = [b.raw_logprobs_BT for b in batches if b.raw_logprobs_BT is not None]
    num_tokens = [int(b.lengths_B.sum()) for b in batches]
    return RolloutBatch(
        prompts=PromptBatch(
            tokens_BP=_stack([p.tokens_BP for p in prompts], PAD),
            lengths_B=torch.cat([p.lengths_B for p in prompts]),
            group_B=torch.cat([p.group_B for p in prompts]),
            problem_B=torch.cat([p.problem_B for p in prompts]),
            sample_B=torch.cat([p.sample_B for p in prompts]),
        ),
        completion_BT=_stack([b.completion_BT for b in batches], PAD),
        lengths_B=torch.cat([b.lengths_B for b in batches]),
        logprobs_BT=_stack([b.logprobs_BT for b in batches], 0),
        raw_logprobs_BT=_stack(raw, 0) if len(raw) == len(batches) else None,
        versions_BT=_stack([b.versions_BT for b in batches], -1),
        finished_B=torch.cat([b.finished_B for b in batches]),
        entropy=sum(b.entropy * n for b, n in zip(batches, num_tokens, strict=True)) / sum(num_tokens),
        routes_BLJk=_stack_routes([b.routes_BLJk for b in batches]),
    )


def take_rows(batch: RolloutBatch, rows_B: Tensor, group_size: int) -> RolloutBatch:
    """Return the given rows, whole groups in a row, with groups numbered anew."""
    prompts = batch.prompts
    return RolloutBatch(
        prompts=PromptBatch(
            tokens_BP=prompts.tokens_BP[rows_B],
            lengths_B=prompts.lengths_B[rows_B],
            group_B=torch.arange(len(rows_B)) // group_size,
            problem_B=prompts.problem_B[rows_B],
            sample_B=prompts.sample_B[rows_B],
        ),
        completion_BT=batch.completion_BT[rows_B],
        lengths_B=batch.lengths_B[rows_B],
        logprobs_BT=batch.logprobs_BT[rows_B],
        raw_logprobs_BT=None if batch.raw_logprobs_BT is None else batch.raw_logprobs_BT[rows_B],
        versions_BT=batch.versions_BT[rows_B],
        finished_B=batch.finished_B[rows_B],
        entropy=batch.entropy,
        routes_BLJk=None if batch.routes_BLJk is None else batch.routes_BLJk[rows_B],
    )


def _stack_routes(tables: Sequence[Tensor | None]) -> Tensor | None:
    known = [table for table in tables if table is not None]
    width = max((table.shape[1] for table in known), default=0)
    wide = [torch.nn.functional.pad(t, (0, 0, 0, 0, 0, width - t.shape[1]), value=NOT_RECORDED) for t in known]
    return torch.cat(wide) if wide else None


def _stack(tensors: Sequence[Tensor], fill: int) -> Tensor:
    width = max(t.shape[1] for t in tensors)
    return torch.cat([torch.nn.functional.pad(t, (0, width - t.shape[1]), value=fill) for t in tensors])
