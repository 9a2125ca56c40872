"""AdamW without its sign, for replays that two configurations are compared by.

::

    update = m / (sqrt(v) + epsilon)        epsilon: the root mean square of the first gradient, not 1e-8

The surprise: with 1e-8 an element's first update is the *sign* of its gradient, however small that is. On the example
one element of 968,640, whose first gradient was 0 but for rounding, was 96 % of the squared distance between two
layouts whose gradients agreed to 1.6e-6; what it moved then spoilt all later gradients. A distance of such updates has
no scale: a healthy layout was ten times as far as the next. With a large epsilon an update is as exact as its gradient,
and half a gradient no longer moves the weights as a whole one does.
"""

import math
from typing import Any, final

from torch.optim import Optimizer


@final
class Damping:
    """Sets the epsilon of every optimizer that it is put on; the first to step with a gradient decides which."""

    def __init__(self) -> None:
        self.epsilon: float | None = None

    def put_on(self, optimizer: Optimizer) -> None:
        """Let every step of ``optimizer`` use the shared epsilon."""
        optimizer.register_step_pre_hook(self._before_step)

    def _before_step(self, optimizer: Optimizer, _args: tuple[Any, ...], _kwargs: dict[str, Any]) -> None:
        if self.epsilon is None:
            self.epsilon = _root_mean_square(optimizer)
        if self.epsilon is not None:
            for group in optimizer.param_groups:
                group["eps"] = self.epsilon


def _root_mean_square(optimizer: Optimizer) -> float | None:
    """Return that of all gradients, elements without one counted as 0; None where nothing has a gradient."""
    params = [param for group in optimizer.param_groups for param in group["params"]]
    squares = sum(float(param.grad.double().square().sum()) for param in params if param.grad is not None)
    size = math.sqrt(squares / sum(param.numel() for param in params))
    return size if size > 0 else None
