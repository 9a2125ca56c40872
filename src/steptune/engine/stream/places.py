"""Which problem stands at each place of an endless queue, and what its group is worth when it comes back.

Place n is the problem that the synchronous run has at the same place of its steps. With dynamic sampling a group whose
rewards are all equal is made again, with the next problem of its place, as often as the job's rounds allow; the last
one stays.
"""

from typing import final

import torch

from steptune.engine.ahead.groups import Group
from steptune.engine.algorithms import mixed_groups
from steptune.engine.produce import Producer
from steptune.engine.stream.groups import Done, Start


@final
class Places:
    """Remembers nothing of a place but the tries it took so far."""

    def __init__(self, producer: Producer) -> None:
        self.producer, self.algorithm = producer, producer.job.algorithm
        is_dynamic = self.algorithm.dynamic_sampling and producer.forced is None
        self.max_tries = self.algorithm.max_sampling_rounds if is_dynamic else 1
        self.tries: dict[int, int] = {}
        """Groups that a place has had and that taught nothing, by place; 0 where it is not named."""

    def start(self, number: int) -> Start:
        """Return the group to begin at a place."""
        _, prompts = self.producer.group_prompts(number, self.tries.get(number, 0))
        forced_g = self.producer.forced_group(number)
        if forced_g is None:
            forced_g = torch.full((self.algorithm.group_size,), self.algorithm.max_completion_len)
        return Start(number=number, prompts=prompts, limit_g=forced_g)

    def verified(self, done: Done) -> Group | None:
        """Return a complete group with its rewards, or None where its place is to be begun again."""
        tries = self.tries.pop(done.number, 0)
        problem, _ = self.producer.group_prompts(done.number, tries)
        raw_reward_g = self.producer.verify(done.batch, [problem])
        is_mixed = bool(mixed_groups(raw_reward_g, group_size=self.algorithm.group_size).any())
        if not is_mixed and tries + 1 < self.max_tries:
            self.tries[done.number] = tries + 1
            return None
        return Group(
            number=done.number,
            batch=done.batch,
            raw_reward_B=raw_reward_g,
            mixed_groups_frac=is_mixed / (tries + 1),
        )
