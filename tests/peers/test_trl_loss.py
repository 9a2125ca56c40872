"""Our policy loss against TRL's own `_compute_loss`, value and gradient, in float64.

TRL's method runs on a stand-in `self` that hands it fixed log-probs, so nothing but the loss is compared.
Shape letters: B rows, T completion token.
"""

from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from steptune.adapters.embedded.baselines import LOSS_TYPES
from steptune.core.job import CorrectionKind, LossAggregation
from steptune.engine.correction import correction_weights
from steptune.engine.policy_loss import aggregation_weights, kl_estimate, policy_token_loss

MAX_COMPLETION_LEN = 10
ROW_B, COL_T = torch.arange(8)[:, None], torch.arange(6)[None, :]
LENGTHS_B = torch.tensor([6, 4, 5, 2, 3, 6, 1, 4])
MASK_BT = LENGTHS_B[:, None] > COL_T
ADVANTAGE_B = torch.tensor(
    [0.865875, -0.865875, -0.865875, 0.865875, -1.024455, 0.146351, -0.439052, 1.317157], dtype=torch.float64
)


def reference_logprobs() -> dict[str, Tensor]:
    """Return current, old, rollout and reference log-probs [B, T] with ratios on both sides of every clip."""
    cur = -(0.3 + 0.17 * ((3 * ROW_B + 5 * COL_T) % 7).double())
    old = cur + 0.11 * (((2 * ROW_B + 3 * COL_T) % 5) - 2)
    old[1, 2] -= 1.5
    old[2, 0] += 1.5
    old[3, 1] -= 1.5
    rollout = old + 0.07 * (((ROW_B + 2 * COL_T) % 3) - 1)
    ref = cur + 0.09 * (((ROW_B + 4 * COL_T) % 5) - 2)
    return {"cur": cur, "old": old, "rollout": rollout, "ref": ref}


def trl_loss(trl: ModuleType, cur: Tensor, logprobs: dict[str, Tensor], ratio: Tensor | None, **case: Any) -> Tensor:
    """Return TRL's loss of the whole batch as one micro-batch."""
    stand_in = SimpleNamespace(
        _get_per_token_logps_and_entropies=lambda *_, **__: (cur, torch.zeros_like(cur), None),
        aux_loss_enabled=False,
        top_entropy_quantile=1.0,
        off_policy_mask_threshold=None,
        importance_sampling_level="token",
        beta=case.get("beta", 0.0),
        loss_type=case["loss_type"],
        epsilon_low=0.2,
        epsilon_high=case.get("clip_high", 0.2),
        max_completion_length=MAX_COMPLETION_LEN,
        args=SimpleNamespace(delta=case.get("delta"), use_bias_correction_kl=False, steps_per_generation=1),
        use_vllm=ratio is not None,
        vllm_importance_sampling_correction=True,
        model=SimpleNamespace(training=True),
        current_gradient_accumulation_steps=1,
        accelerator=SimpleNamespace(gather=lambda x: x, reduce=lambda x, **_: x, num_processes=1),
        _metrics={"train": _Sink()},
        _entropy_bonus_enabled=False,
    )
    tokens = torch.ones(8, 6, dtype=torch.int64)
    inputs = {
        "prompt_ids": tokens[:, :1],
        "prompt_mask": tokens[:, :1],
        "completion_ids": tokens,
        "completion_mask": MASK_BT.int(),
        "advantages": ADVANTAGE_B,
        "num_items_in_batch": MASK_BT.sum(),
        "old_per_token_logps": logprobs["old"],
        "ref_per_token_logps": logprobs["ref"],
        "importance_sampling_ratio": ratio,
    }
    return trl.GRPOTrainer._compute_loss(stand_in, None, inputs)


class _Sink(dict[str, list[float]]):
    """Takes the metrics TRL logs."""

    def __missing__(self, key: str) -> list[float]:
        return self.setdefault(key, [])


def our_loss(cur: Tensor, logprobs: dict[str, Tensor], how: LossAggregation, **case: Any) -> Tensor:
    """Return the engine's loss, put together as the trainer does."""
    loss = policy_token_loss(
        cur,
        logprobs["old"],
        ADVANTAGE_B[:, None],
        clip_low=0.2,
        clip_high=case.get("clip_high", 0.2),
        dual_clip=case.get("delta"),
    )
    if "correction" in case:
        loss = loss * our_ratio(logprobs, case["correction"])
    if "beta" in case:
        loss = loss + case["beta"] * kl_estimate(cur, logprobs["ref"], "k3")
    weights = aggregation_weights(MASK_BT, how=how, max_completion_len=MAX_COMPLETION_LEN)
    return (loss * weights).sum()


CASES: dict[str, dict[str, Any]] = {
    "clip 0.2": {},
    "clip higher": {"clip_high": 0.28},
    "dual clip": {"delta": 3.0},
    "k3 KL": {"beta": 0.04},
    "truncated correction": {"correction": "tis"},
    "masked correction": {"correction": "mis"},
    "correction inside a band": {"correction": "band"},
    "truncated correction of rows": {"correction": "sequence_tis"},
    "masked correction of rows": {"correction": "sequence_mis"},
    "all at once": {"clip_high": 0.28, "delta": 3.0, "beta": 0.04, "correction": "tis"},
}


@pytest.mark.parametrize("how", LossAggregation)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_loss_and_gradient_are_trls(trl: ModuleType, how: LossAggregation, case: dict[str, Any]) -> None:
    logprobs = reference_logprobs()
    ours_cur, trls_cur = (logprobs["cur"].clone().requires_grad_() for _ in range(2))
    ratio = trl_ratio(logprobs, case["correction"]) if "correction" in case else None
    ours = our_loss(ours_cur, logprobs, how, **case)
    trls = trl_loss(trl, trls_cur, logprobs, ratio, loss_type=LOSS_TYPES[how], **case)
    torch.testing.assert_close(ours, trls, rtol=1e-6, atol=1e-9)
    (ours_grad,) = torch.autograd.grad(ours, ours_cur)
    (trls_grad,) = torch.autograd.grad(trls, trls_cur)
    torch.testing.assert_close(ours_grad, trls_grad, rtol=1e-6, atol=1e-9)
    assert ours_grad.abs().sum() > 0


def our_ratio(logprobs: dict[str, Tensor], kind: CorrectionKind) -> Tensor:
    weight_BT = torch.ones_like(logprobs["old"])
    old, rollout, row = (x[MASK_BT] for x in (logprobs["old"], logprobs["rollout"], ROW_B.expand(MASK_BT.shape)))
    weight_BT[MASK_BT] = correction_weights(old, rollout, row, kind=kind, cap=1.05, floor=0.95)
    return weight_BT


def trl_ratio(logprobs: dict[str, Tensor], kind: str) -> Tensor:
    """Return the weights as `_generate_and_score_completions` makes them in its modes token_... and sequence_..."""
    log_ratio = (logprobs["old"] - logprobs["rollout"]) * MASK_BT
    ratio = torch.exp(log_ratio.sum(-1, keepdim=True) if kind.startswith("sequence") else log_ratio)
    if kind.endswith("tis"):
        return ratio.clamp(max=1.05)
    low = 0.95 if kind == "band" else 0.0
    return ratio.masked_fill((ratio > 1.05) | (ratio < low), 0.0)
