"""One pass over the vocabulary gives what log-softmax and its products give."""

import pytest
import torch

from steptune.engine.softmax import softmax


@pytest.mark.parametrize("scale", [0.1, 3.0, 60.0])
def test_log_probs_and_entropy_are_those_of_float64(scale: float) -> None:
    logits = torch.randn(4, 1000, generator=torch.Generator().manual_seed(0)) * scale + 100
    exact = torch.distributions.Categorical(logits=logits.double())
    token = torch.tensor([0, 5, 999, 17])
    policy = softmax(logits)
    assert torch.allclose(policy.logprob(token).double(), exact.log_prob(token), atol=2e-5 * scale)
    assert torch.allclose(policy.entropy_n.double(), exact.entropy(), atol=1e-5)
    assert policy.shifted_nV.data_ptr() == logits.data_ptr()  # no second table of the vocabulary


def test_entropy_is_in_nats() -> None:
    logits = torch.tensor([[1.0, 1.0], [0.0, -60.0]])
    assert torch.allclose(softmax(logits).entropy_n, torch.tensor([2.0, 1.0]).log(), atol=1e-6)


def test_nan_stays_nan() -> None:
    policy = softmax(torch.tensor([[0.0, torch.nan]]))
    assert policy.entropy_n.isnan().all()
    assert policy.logprob(torch.tensor([0])).isnan().all()
