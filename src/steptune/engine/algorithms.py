"""What GRPO and DAPO do to rewards before training: punishment, dynamic sampling, advantages. Pure tensor functions.

Rows of a group are adjacent. A NaN reward stays NaN in its group's advantages, so the trainer refuses the
gradient instead of training on it.

Shape letters: B rows, Q prompts (groups), G rollouts of a group.
"""

from typing import Literal

import torch
from torch import Tensor

STD_EPSILON = 1e-4
"""Added to the standard deviation, in reward units: TRL's value (verl uses 1e-6)."""


def advantages(reward_B: Tensor, *, group_size: int, scale: Literal["group", "batch", "none"]) -> Tensor:
    """Return one advantage per row: reward minus its group's mean, over a standard deviation.

    ``group`` divides by the group's (GRPO, https://arxiv.org/abs/2402.03300), ``batch`` by the whole batch's,
    ``none`` by nothing (Dr. GRPO, https://arxiv.org/abs/2503.20783). Standard deviations are unbiased (n - 1).
    """
    reward_QG = reward_B.unflatten(0, (-1, group_size))
    centred_QG = reward_QG - reward_QG.mean(dim=1, keepdim=True)
    match scale:
        case "group":
            scaled_QG = centred_QG / (reward_QG.std(dim=1, keepdim=True) + STD_EPSILON)
        case "batch":
            scaled_QG = centred_QG / (reward_B.std() + STD_EPSILON)
        case "none":
            scaled_QG = centred_QG
    return scaled_QG.flatten()


def overlong_punishment(lengths_B: Tensor, *, max_len: int, buffer_len: int, penalty: float) -> Tensor:
    """Return the reward to add for length, between ``-penalty`` and 0 (DAPO equation 13, https://arxiv.org/abs/2503.14476).

    Zero up to ``max_len - buffer_len`` tokens, then falling linearly to ``-penalty`` at ``max_len``; a buffer
    of 0 switches it off.
    """
    if buffer_len == 0:
        return torch.zeros(lengths_B.shape)
    exceed_B = (lengths_B - (max_len - buffer_len)).float()
    return -penalty * (exceed_B / buffer_len).clamp(0.0, 1.0)


def mixed_groups(raw_reward_B: Tensor, *, group_size: int) -> Tensor:
    """Return bool [B], True on rows whose group has at least two different raw rewards: the only ones that teach.

    Dynamic sampling keeps these. It must see the verifier's reward, not the length-shaped one, which differs
    inside a group that is all right or all wrong.
    """
    reward_QG = raw_reward_B.unflatten(0, (-1, group_size))
    mixed_Q = (reward_QG != reward_QG[:, :1]).any(dim=1)
    return mixed_Q.repeat_interleave(group_size)
