"""The replicas of an executed cluster: every one generates its own groups on the real engine, one after the other.

The engine is one and the same, so a replica's weights are the others' and nothing but its groups and its CPU seconds
are its own. Samples are keyed by prompt and position: how groups are shared out changes them by rounding only.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from steptune.core.job import JobSpec
from steptune.core.profile import SampledLengths
from steptune.engine.algorithms import mixed_groups
from steptune.engine.events import Clock
from steptune.engine.knobs import EngineKnobs
from steptune.engine.model import Transformer
from steptune.engine.produce import (
    SEED_STRIDE,
    Produced,
    join_batches,
    prompt_batch,
    rollout_engine,
    take_rows,
)
from steptune.engine.routing import route
from steptune.engine.types import PromptBatch, RolloutBatch, RolloutTrace
from steptune.engine.virtual.routing import sizes_of
from steptune.engine.virtual.spec import ClusterSpec, slowdown_of
from steptune.engine.virtual.work import Group, GroupWork, RowWork
from steptune.envs.math.problems import Problem, train_problem
from steptune.envs.math.verify import reward
from steptune.envs.vocabulary import vocabulary_of


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolRollout:
    """One step's rollouts, and what each replica spent on them."""

    produced: Produced
    replica_s: tuple[float, ...]
    """CPU seconds times the replica's slow-down."""
    version: int


@final
class ReplicaPool:
    """Makes any step's rollouts, from the step's number alone."""

    def __init__(
        self,
        spec: ClusterSpec,
        job: JobSpec,
        knobs: EngineKnobs,
        *,
        seed: int,
        forced: SampledLengths | None,
        clock: Clock,
    ) -> None:
        self.spec, self.job, self.seed, self.forced, self.clock = spec, job, seed, forced, clock
        self.engine = rollout_engine(job, knobs)

    def rollout(self, model: Transformer, version: int, step: int) -> PoolRollout:
        """Generate and verify a step's groups under the model's weights."""
        size = self.job.algorithm.group_size
        problems, prompts = self._prompts(step)
        self.engine.load(model.state_dict(), version)
        parts, seconds, order = list[tuple[RolloutBatch, RolloutTrace]](), list[float](), list[int]()
        for replica, groups in enumerate(self._shares(step)):
            rows = [group * size + i for group in groups for i in range(size)]
            start_s = self.clock()
            if rows:
                parts.append(self._generate(prompts, rows, step))
            seconds.append((self.clock() - start_s) * slowdown_of(self.spec.replica_slowdown, replica))
            order += rows
        # every row goes where it would be, had one replica made them all
        batch = take_rows(join_batches([batch for batch, _ in parts]), torch.tensor(order).argsort(), size)
        produced = self._verified(batch, problems, tuple(trace for _, trace in parts))
        return PoolRollout(produced=produced, replica_s=tuple(seconds), version=version)

    def _prompts(self, step: int) -> tuple[list[Problem], PromptBatch]:
        """Return the same problems that `Producer` draws for this step."""
        algorithm, workload = self.job.algorithm, self.job.workload
        first = step * algorithm.max_sampling_rounds * algorithm.prompts_per_step
        indices = [self.seed * SEED_STRIDE + first + i for i in range(algorithm.prompts_per_step)]
        problems = [train_problem(workload.seed, index, workload.levels) for index in indices]
        return problems, prompt_batch(
            [p.text for p in problems], indices, algorithm.group_size, vocabulary_of(self.job)
        )

    def _shares(self, step: int) -> list[list[int]]:
        """Return the groups of each replica; nobody is ahead of another at a step's start."""
        num_groups, num_rows = self.job.algorithm.prompts_per_step, self.job.algorithm.group_size
        lengths_B = None if self.forced is None else self._forced_lengths(step).tolist()
        groups = [Group(index=g, work=_work(g, num_rows, lengths_B), num_left=num_rows) for g in range(num_groups)]
        shares: list[list[int]] = [[] for _ in range(self.spec.num_replicas)]
        sizes, first = sizes_of(self.spec.routing, groups), step * num_groups % len(shares)
        for group, replica in route(self.spec.routing, sizes, [0.0] * len(shares), first):
            shares[replica].append(groups[group].index)
        return shares

    def _generate(self, prompts: PromptBatch, rows: list[int], step: int) -> tuple[RolloutBatch, RolloutTrace]:
        forced_lengths_B = None if self.forced is None else self._forced_lengths(step)[rows]
        return self.engine.generate(
            prompts.take(torch.tensor(rows)),
            max_completion_len=self.job.algorithm.max_completion_len,
            temperature=self.job.algorithm.temperature,
            seed=self.seed,
            forced_lengths_B=forced_lengths_B,
        )

    def _forced_lengths(self, step: int) -> Tensor:
        assert self.forced is not None
        rows = self.forced.rollouts_per_step
        start = step % (len(self.forced.completion) // rows) * rows
        return torch.tensor(self.forced.completion[start : start + rows])

    def _verified(self, batch: RolloutBatch, problems: Sequence[Problem], traces: tuple[RolloutTrace, ...]) -> Produced:
        tokens, lengths, groups = batch.completion_BT.tolist(), batch.lengths_B.tolist(), batch.prompts.group_B.tolist()
        texts = [vocabulary_of(self.job).decode(row[:n]) for row, n in zip(tokens, lengths, strict=True)]
        raw_B = torch.tensor([reward(text, problems[g].answer) for text, g in zip(texts, groups, strict=True)])
        mixed_B = mixed_groups(raw_B, group_size=self.job.algorithm.group_size)
        return Produced(batch=batch, raw_reward_B=raw_B, traces=traces, mixed_groups_frac=float(mixed_B.float().mean()))


def _work(group: int, num_rows: int, lengths_B: Sequence[int] | None) -> GroupWork:
    """Return a group as the router sees it: without forced lengths nothing is known of it."""
    own = [1] * num_rows if lengths_B is None else lengths_B[group * num_rows : (group + 1) * num_rows]
    return GroupWork(prompt=1, rows=tuple(RowWork(completion=n) for n in own), predicted=float(sum(own)))
