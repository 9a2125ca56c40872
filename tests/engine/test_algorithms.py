import pytest
import torch

from steptune.engine.algorithms import advantages, mixed_groups, overlong_punishment

REWARDS = torch.tensor([1, 0, 0, 1, 0, 0.5, 0.25, 1], dtype=torch.float64)


def test_group_scaled_advantages_match_trl() -> None:
    expected = [0.865875, -0.865875, -0.865875, 0.865875, -1.024455, 0.146351, -0.439052, 1.317157]
    got = advantages(REWARDS, group_size=4, scale="group")
    torch.testing.assert_close(got, torch.tensor(expected, dtype=torch.float64), atol=1e-6, rtol=0)


def test_unscaled_advantages_match_dr_grpo() -> None:
    expected = [0.5, -0.5, -0.5, 0.5, -0.4375, 0.0625, -0.1875, 0.5625]
    assert advantages(REWARDS, group_size=4, scale="none").tolist() == pytest.approx(expected)


def test_batch_scaled_advantages_share_one_deviation() -> None:
    # sd of all eight rewards (n - 1) is 0.46592...
    expected = advantages(REWARDS, group_size=4, scale="none") / (REWARDS.std() + 1e-4)
    assert advantages(REWARDS, group_size=4, scale="batch").tolist() == pytest.approx(expected.tolist())


def test_a_group_without_variance_has_zero_advantage() -> None:
    assert advantages(torch.ones(4), group_size=2, scale="group").tolist() == [0, 0, 0, 0]


def test_a_nan_reward_spoils_its_own_group_and_no_other() -> None:
    got = advantages(torch.tensor([1.0, torch.nan, 1.0, 0.0]), group_size=2, scale="group")
    assert got.isnan().tolist() == [True, True, False, False]


def test_overlong_punishment_is_linear_in_the_buffer_and_has_a_floor() -> None:
    lengths = torch.tensor([1, 30, 32, 35, 40, 45])
    got = overlong_punishment(lengths, max_len=40, buffer_len=10, penalty=0.5)
    assert got.tolist() == pytest.approx([0, 0, -0.1, -0.25, -0.5, -0.5])


def test_no_buffer_means_no_punishment() -> None:
    assert overlong_punishment(torch.tensor([40]), max_len=40, buffer_len=0, penalty=1.0).tolist() == [0]


def test_only_groups_with_different_rewards_teach() -> None:
    kept = mixed_groups(torch.tensor([1.0, 1.0, 0.0, 1.0, 0.0, 0.0]), group_size=2)
    assert kept.tolist() == [False, False, True, True, False, False]
