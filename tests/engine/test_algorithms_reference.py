"""Loss values computed with TRL 1.16, verl 0.9.1 and NeMo RL (August 2026), float64; they agree to 1e-9.

The case: 8 rows of 1 to 6 tokens, groups of 4, log-ratios up to 1.7 so that every clip is active somewhere.
"""

from dataclasses import dataclass
from typing import Literal

import pytest
import torch

from steptune.core.job import LossAggregation
from steptune.engine.algorithms import advantages
from steptune.engine.policy_loss import aggregation_weights, correction_weights, kl_k3, policy_token_loss

TOKEN_MEAN = LossAggregation.TOKEN_MEAN


@dataclass(frozen=True, kw_only=True)
class Case:
    loss: float
    grad_norm: float
    grad_sum: float
    how: LossAggregation = TOKEN_MEAN
    clip_high: float = 0.2
    dual_clip: float | None = None
    kl_coef: float = 0.0
    correction: Literal["none", "tis", "icepop"] = "none"


CASES = {
    "token mean": Case(loss=0.021259860, grad_norm=0.174992316, grad_sum=0.161785050),
    "sequence mean": Case(
        loss=0.067271149, grad_norm=0.183542275, grad_sum=0.214898979, how=LossAggregation.SEQ_MEAN_TOKEN_MEAN
    ),
    "Dr. GRPO, constant 10": Case(
        loss=0.008238196, grad_norm=0.067809522, grad_sum=0.062691707, how=LossAggregation.SEQ_MEAN_TOKEN_SUM_NORM
    ),
    "clip higher": Case(loss=0.014058555, grad_norm=0.189518812, grad_sum=0.027465659, clip_high=0.28),
    "dual clip 3": Case(loss=-0.007086389, grad_norm=0.134338327, grad_sum=0.049644404, dual_clip=3.0),
    "k3 KL 0.04": Case(loss=0.021593832, grad_norm=0.174909498, grad_sum=0.161683336, kl_coef=0.04),
    "token TIS 1.05": Case(loss=0.017621594, grad_norm=0.171369668, grad_sum=0.155520577, correction="tis"),
    "token mask [0.95, 1.05]": Case(loss=0.002017629, grad_norm=0.089469883, grad_sum=0.035535387, correction="icepop"),
}


def reference_logprobs() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return cur, old, gen, ref and mask."""
    i, j = torch.arange(8)[:, None], torch.arange(6)[None, :]
    cur = -(0.3 + 0.17 * ((3 * i + 5 * j) % 7).double())
    old = cur + 0.11 * (((2 * i + 3 * j) % 5) - 2).double()
    old[1, 2] -= 1.5
    old[2, 0] += 1.5
    old[3, 1] -= 1.5
    gen = old + 0.07 * (((i + 2 * j) % 3) - 1).double()
    ref = cur + 0.09 * (((i + 4 * j) % 5) - 2).double()
    mask = j < torch.tensor([6, 4, 5, 2, 3, 6, 1, 4])[:, None]
    return cur.requires_grad_(), old, gen, ref, mask


def weights_of(case: Case, old: torch.Tensor, gen: torch.Tensor) -> torch.Tensor:
    if case.correction == "icepop":  # ours has no lower bound: masking the inverse weight gives it
        not_too_low = correction_weights(gen, old, kind="mis", cap=1 / 0.95) > 0
        return correction_weights(old, gen, kind="mis", cap=1.05) * not_too_low
    return correction_weights(old, gen, kind=case.correction, cap=1.05)


@pytest.mark.parametrize("name", CASES)
def test_the_loss_agrees_with_three_frameworks(name: str) -> None:
    case = CASES[name]
    cur, old, gen, ref, mask = reference_logprobs()
    advantage = advantages(
        torch.tensor([1, 0, 0, 1, 0, 0.5, 0.25, 1], dtype=torch.float64), group_size=4, scale="group"
    )
    token_loss = policy_token_loss(
        cur, old, advantage[:, None], clip_low=0.2, clip_high=case.clip_high, dual_clip=case.dual_clip
    )
    token_loss = token_loss * weights_of(case, old, gen) + case.kl_coef * kl_k3(cur, ref)
    loss = (token_loss * aggregation_weights(mask, how=case.how, max_completion_len=10)).sum()
    (grad,) = torch.autograd.grad(loss, cur)
    # the table has nine decimals
    assert loss.item() == pytest.approx(case.loss, abs=1e-8)
    assert grad.norm().item() == pytest.approx(case.grad_norm, abs=1e-8)
    assert grad.sum().item() == pytest.approx(case.grad_sum, abs=1e-8)
    assert grad[~mask].abs().sum() == 0


@pytest.mark.parametrize("how", list(LossAggregation))
def test_a_fully_masked_row_does_not_count_as_a_sequence(how: LossAggregation) -> None:
    mask = torch.tensor([[True, True, False], [True, False, False]])
    with_empty = torch.cat([mask, torch.zeros(1, 3, dtype=torch.bool)])
    weights = aggregation_weights(with_empty, how=how, max_completion_len=3)
    torch.testing.assert_close(weights[:2], aggregation_weights(mask, how=how, max_completion_len=3))
    assert weights[2].sum() == 0


@pytest.mark.parametrize("how", list(LossAggregation))
def test_an_empty_mask_weighs_nothing(how: LossAggregation) -> None:
    assert aggregation_weights(torch.zeros(2, 3, dtype=torch.bool), how=how, max_completion_len=3).sum() == 0


def test_a_correction_weight_that_is_not_finite_drops_its_token() -> None:
    old = torch.tensor([torch.nan, 1000.0, -1.0, 0.0])
    rollout = torch.tensor([-1.0, -1.0, -1.0, -1.0])
    assert correction_weights(old, rollout, kind="tis", cap=2.0).tolist() == [0, 0, 1, 2]
    assert correction_weights(old, rollout, kind="mis", cap=2.0).tolist() == [0, 0, 1, 0]


def test_no_gradient_flows_through_the_correction() -> None:
    old = torch.zeros(3, requires_grad=True)
    assert not correction_weights(old, torch.zeros(3), kind="tis", cap=2.0).requires_grad
