"""Two runs whose gradients agree up to rounding, and what becomes of that in the weights."""

import pytest
import torch
from torch import Tensor

from steptune.engine.damping import Damping

NUM_ELEMENTS, NUM_STEPS, LR = 1000, 4, 1e-2


def gradients(seed: int) -> list[Tensor]:
    """Return gradients near 1e-3 that differ by 1e-6 of it between seeds; the first element's begins at nearly 0."""
    shared, own = torch.Generator().manual_seed(0), torch.Generator().manual_seed(seed)
    made = [1e-3 * torch.randn(NUM_ELEMENTS, generator=shared) for _ in range(NUM_STEPS)]
    rounded = [g * (1 + 1e-6 * torch.randn(NUM_ELEMENTS, generator=own)) for g in made]
    rounded[0][0] = 1e-9 * (-1) ** seed
    return rounded


def end_of(grads: list[Tensor], damping: Damping | None) -> Tensor:
    """Return the weights after AdamW's steps from 0."""
    weight = torch.nn.Parameter(torch.zeros(NUM_ELEMENTS))
    optimizer = torch.optim.AdamW([weight], lr=LR, weight_decay=0.0)
    if damping is not None:
        damping.put_on(optimizer)
    for grad in grads:
        weight.grad = grad.clone()
        optimizer.step()
    return weight.detach()


def distance(ours: Tensor, theirs: Tensor) -> float:
    return float((ours - theirs).norm() / theirs.norm())


def test_one_gradient_that_is_rounding_does_not_decide_over_the_distance() -> None:
    damping = Damping()
    assert distance(end_of(gradients(1), damping), end_of(gradients(2), damping)) < 2e-6
    # one element of 1000 goes 0.2 of a step one way or the other: the sign of a rounding error
    assert distance(end_of(gradients(1), None), end_of(gradients(2), None)) > 1e-3


def test_half_a_gradient_moves_the_weights_about_half_as_far() -> None:
    damping = Damping()
    whole = end_of(gradients(1), damping)
    half = end_of([grad / 2 for grad in gradients(1)], damping)
    assert 0.2 < distance(half, whole) < 0.5
    assert distance(end_of([grad / 2 for grad in gradients(1)], None), end_of(gradients(1), None)) < 1e-3


def test_the_first_gradient_that_is_one_decides_and_all_optimizers_share_it() -> None:
    damping = Damping()
    end_of([torch.zeros(NUM_ELEMENTS)], damping)
    assert damping.epsilon is None
    end_of([torch.full((NUM_ELEMENTS,), 0.5)], damping)
    assert damping.epsilon == pytest.approx(0.5)
    end_of([torch.full((NUM_ELEMENTS,), 7.0)], damping)
    assert damping.epsilon == pytest.approx(0.5)
