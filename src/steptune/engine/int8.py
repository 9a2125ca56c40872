"""Products in 8-bit integers: weights rounded once per load, inputs split in two bytes per call, sums exact.

::

    weight [out, in]  ->  int8, one scale per output                  at every load
    input  [n, in]    ->  high and low byte, one scale per row        at every call; rows do not touch each other
    [high; low] as 2n rows through one integer product; output = (high + low / 254) * both scales, float32

A quarter of float32's bytes, and the CPU's VNNI instructions multiply four times as many numbers at once. One byte per
input was not enough: SmolLM2-135M's log-probs moved by 0.36 nats a token (k3 0.23). The second byte leaves the
weights' own rounding, 0.09 (k3 0.01; bf16: 0.05, 0.003). Few rows are bound by the weights' bytes: it costs little.

Surprise: bytes are *unsigned* around 128, for oneDNN's signed kernel is a scalar loop (250 times slower here), and a
CPU without VNNI adds pairs of products in 16 bits, where they overflow: it is refused, not served wrong numbers.

Rounding is real: the gap to the trainer is measured in every run, and the guard `limits.max_mismatch_k3` judges it.
Norms, softmax, attention, the KV cache, routers and stacked experts stay float32. CPU only; not run on CUDA.

Shape letters: n rows, D input, O output.
"""

from typing import final

import torch
from torch import Tensor

from steptune.core.errors import JobError, explain

LARGEST = 127.0
"""Largest magnitude of a byte; -128 is not used, so that rounding is symmetric."""

MIDDLE = 128
"""The unsigned byte that stands for 0."""

LOW_STEPS = 254.0
"""Low bytes per high one: what a high byte leaves over lies in [-1/2, 1/2), which is 1 to 255 in them."""

SMALLEST_SCALE = 1e-30
"""A row or a weight of zeros alone is divided by this: it stays zero."""


def has_int8() -> bool:
    """Return whether this CPU multiplies bytes without overflow, and torch has the kernels for it."""
    return torch.backends.mkldnn.is_available() and torch.cpu._is_vnni_supported()  # pyright: ignore[reportPrivateUsage]  no public name


def check_int8(device: torch.device) -> None:
    """Refuse a machine that cannot compute in int8.

    Raises:
        JobError: not a CPU, or one without VNNI.
    """
    if device.type != "cpu" or not has_int8():
        raise JobError(
            explain(
                "`rollout_dtype` int8 needs a CPU with VNNI and torch built with oneDNN",
                got=f"device {device.type}, {'with' if has_int8() else 'without'} them",
                allowed="fp32 or bf16 here",
                hint="set `rollout_dtype` to bf16",
            )
        )


@final
class Int8Product:
    """The product with one rounded weight; it keeps no other copy."""

    def __init__(self, weight_OD: Tensor) -> None:
        with torch.no_grad():
            whole_OD = weight_OD.detach().float()
            scale_O = whole_OD.abs().amax(1).clamp_(min=SMALLEST_SCALE) / LARGEST
            rounded_OD = (whole_OD / scale_O[:, None]).round_().to(torch.int8)
            self._packed = torch.ops.onednn.qlinear_prepack(rounded_OD, None)
        self._scale_O, self._zero_O = scale_O / LARGEST, torch.zeros(len(scale_O), dtype=torch.int64)
        # half more than the middle, for the conversion to a byte cuts off, and so rounds
        self._high_shift, self._low_shift = torch.tensor(MIDDLE + 0.5), torch.tensor(MIDDLE + 0.5 - LOW_STEPS / 2)

    def __call__(self, x: Tensor, bias_O: Tensor | None) -> Tensor:
        """Return the product [..., O] of float32 ``x`` [..., D]. A row with NaN or infinity gives no finite row."""
        x_nD = x.flatten(0, -2)
        num_rows = len(x_nD)
        largest_n1 = x_nD.abs().amax(-1, keepdim=True).clamp_(min=SMALLEST_SCALE)
        byte_mD = torch.empty(2 * num_rows, x_nD.shape[1], dtype=torch.uint8)
        scaled_nD = torch.addcmul(self._high_shift, x_nD, LARGEST / largest_n1)
        byte_mD[:num_rows] = scaled_nD
        byte_mD[num_rows:] = torch.add(self._low_shift, scaled_nD.frac_(), alpha=LOW_STEPS)
        part_mO = torch.ops.onednn.qlinear_pointwise(
            byte_mD, 1.0, MIDDLE, self._packed, self._scale_O, self._zero_O, None, 1.0, 0, torch.float32, "none", [], ""
        )
        sum_nO = torch.add(part_mO[:num_rows], part_mO[num_rows:], alpha=1 / LOW_STEPS)
        out_nO = sum_nO.mul_(largest_n1) if bias_O is None else torch.addcmul(bias_O, sum_nO, largest_n1)
        return out_nO.unflatten(0, x.shape[:-1])
