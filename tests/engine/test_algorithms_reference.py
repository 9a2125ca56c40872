"""Loss values computed with TRL 1.16, verl 0.9.1 and NeMo RL (August 2026), float64; they agree to 1e-9.

The case: 8 rows of 1 to 6 tokens, groups of 4, log-ratios up to 1.7 so that every clip is active somewhere.
"""

import math
from dataclasses import dataclass

import pytest
import torch

from steptune.core.job import CorrectionKind, KlForm, LossAggregation
from steptune.engine.algorithms import advantages
from steptune.engine.correction import correction_weights
from steptune.engine.policy_loss import aggregation_weights, kl_estimate, policy_token_loss

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
    correction: CorrectionKind = "none"
    cap: float = 1.05


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
    "token mask [0.95, 1.05]": Case(loss=0.002017629, grad_norm=0.089469883, grad_sum=0.035535387, correction="band"),
    "untruncated token IS": Case(
        loss=0.017174253, grad_norm=0.172383070, grad_sum=0.155955173, correction="tis", cap=1e9
    ),
    "sequence truncate 1.05": Case(
        loss=0.012416430, grad_norm=0.173706348, grad_sum=0.154452291, correction="sequence_tis"
    ),
    "sequence mask 1.05": Case(
        loss=-0.002454693, grad_norm=0.173068614, grad_sum=0.139581169, correction="sequence_mis"
    ),
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


def correct(old: torch.Tensor, gen: torch.Tensor, mask: torch.Tensor, kind: CorrectionKind, cap: float) -> torch.Tensor:
    """Return the weights [B, T], 1 outside the mask."""
    row = torch.arange(8)[:, None].expand(mask.shape)
    weights = torch.ones_like(old)
    weights[mask] = correction_weights(old[mask], gen[mask], row[mask], kind=kind, cap=cap, floor=0.95)
    return weights


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
    token_loss = token_loss * correct(old, gen, mask, case.correction, case.cap)
    token_loss = token_loss + case.kl_coef * kl_estimate(cur, ref, "k3")
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


def weigh(
    old: torch.Tensor, rollout: torch.Tensor, kind: CorrectionKind, row: tuple[int, ...] = (0, 1, 2, 3)
) -> list[float]:
    return correction_weights(old, rollout, torch.tensor(row), kind=kind, cap=2.0, floor=0.9).tolist()


def test_a_correction_weight_that_is_not_finite_drops_its_token_or_its_row() -> None:
    old = torch.tensor([torch.nan, 1000.0, -1.0, 0.0])
    rollout = torch.tensor([-1.0, -1.0, -1.0, -1.0])
    assert weigh(old, rollout, "tis") == [0, 0, 1, 2]
    assert weigh(old, rollout, "mis") == [0, 0, 1, 0]
    assert weigh(old, rollout, "band") == [0, 0, 1, 0]
    assert weigh(old, rollout, "sequence_tis", (0, 2, 2, 3)) == [0, 0, 0, 2]


def test_a_sequence_weight_is_the_product_over_its_row() -> None:
    _cur, old, gen, _ref, mask = reference_logprobs()
    # as printed by verl for a cap of 1.05
    expected = torch.tensor([1, 1, 0.932394, 1, 1, 1, 1.05, 1], dtype=torch.float64)
    torch.testing.assert_close(correct(old, gen, mask, "sequence_tis", 1.05)[:, 0], expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("form", "value"), [("k1", 0.005806452), ("abs", 0.110322581), ("k2", 0.008361290), ("k3", 0.008349306)]
)
def test_kl_estimates_agree_with_verl(form: KlForm, value: float) -> None:
    cur, _old, _gen, ref, mask = reference_logprobs()
    assert kl_estimate(cur, ref, form)[mask].mean().item() == pytest.approx(value, abs=1e-8)


@pytest.mark.parametrize(("form", "gradient"), [("k1", 1.0), ("k2", 0.5), ("k3", 1 - math.exp(-0.5)), ("abs", 1.0)])
def test_the_gradient_of_a_kl_estimate_is_that_of_its_formula(form: KlForm, gradient: float) -> None:
    cur = torch.tensor(-1.0, requires_grad=True)
    kl_estimate(cur, torch.tensor(-1.5), form).backward()  # cur - ref = 0.5
    assert cur.grad is not None
    assert cur.grad.item() == pytest.approx(gradient, abs=1e-6)


def test_in_the_mean_k2_pulls_along_the_divergence_and_k3_along_the_reverse_one() -> None:
    """Exact expectations over a vocabulary of 3, as gradients with respect to the logits."""
    logits = torch.tensor([0.3, -0.2, 0.5], dtype=torch.float64, requires_grad=True)
    ref = torch.tensor([0.1, 0.6, 0.3], dtype=torch.float64).log()
    cur = logits.log_softmax(0)
    probs = cur.exp().detach()

    def slope(loss: torch.Tensor) -> torch.Tensor:
        return torch.autograd.grad(loss, logits, retain_graph=True)[0]

    mean = {form: slope((probs * kl_estimate(cur, ref, form)).sum()) for form in ("k1", "k2", "k3")}
    torch.testing.assert_close(mean["k1"], torch.zeros_like(logits))
    torch.testing.assert_close(mean["k2"], slope((cur.exp() * (cur - ref)).sum()))
    torch.testing.assert_close(mean["k3"], slope((ref.exp() * (ref - cur)).sum()))


def test_no_gradient_flows_through_the_correction() -> None:
    old = torch.zeros(3, requires_grad=True)
    row = torch.arange(3)
    weights = correction_weights(old, torch.zeros(3), row, kind="sequence_tis", cap=2.0, floor=0.0)
    assert not weights.requires_grad
