"""Rewards become advantages: the step between the environment and the trainer."""

import torch

from steptune.core.job import AlgorithmSpec
from steptune.engine.algorithms import advantages, overlong_punishment
from steptune.engine.produce import Produced
from steptune.engine.types import ScoredBatch


def score(produced: Produced, algorithm: AlgorithmSpec) -> ScoredBatch:
    """Return the trainer's input: shaped rewards, advantages, and which rows count in the loss."""
    batch = produced.batch
    punishment_B = overlong_punishment(
        batch.lengths_B,
        max_len=algorithm.max_completion_len,
        buffer_len=algorithm.overlong_buffer_len,
        penalty=algorithm.overlong_penalty,
    )
    reward_B = produced.raw_reward_B + punishment_B
    kept_B = batch.finished_B if algorithm.mask_truncated else torch.ones_like(batch.finished_B)
    return ScoredBatch(
        rollout=batch,
        raw_reward_B=produced.raw_reward_B,
        reward_B=reward_B,
        advantage_B=advantages(reward_B, group_size=algorithm.group_size, scale=algorithm.scale_advantage),
        train_mask_B=kept_B,
    )
