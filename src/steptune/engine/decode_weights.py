"""The rollout's own weights, laid out for products of few rows.

Decoding multiplies a handful of rows by every weight, which is where BLAS is furthest from its best. The matrices of
SmolLM2-135M's layers at 8 rows take 36 ms in torch's order [out, in] and 17 ms stored as [in, out]; in bf16, where a
product puts its weights in order on every call, 29 against 21 ms once that is done beforehand, and 14 against 7.5 at
one row. The head over 49,152 tokens: 58 against 22 ms in float32, 24 against 10 in bf16 (one thread of an Intel Xeon
with AVX-512 and without AMX, torch 2.13). The price is paid at every load: 0.5 s instead of 0.2 for that model.

The model's definition does not change: a float32 matrix keeps its shape and only its strides differ, a bf16 or int8 one
is a module that is called the same way. Surprise: the packed copy *replaces* the plain one, so weights come in through
`load_state_dict` alone; a weight that is shared with a trainer (handover `alias`) or lies on a GPU is left as it is.

Shape letters: n rows, D input, O output, V vocab.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal, final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from steptune.engine.int8 import Int8Product
from steptune.engine.model import Transformer
from steptune.engine.tensor_hash import tensor_hash

READ_DIRECTLY = ("router", "shared_gate", "head")
"""Matrices whose weight is read as a tensor, not called as a layer."""

MIN_PARAMETERS = 20_000_000
"""Model size from which an order pays. At 1 M and 4 M parameters iterations took as long as before (4, 64 and 256 rows,
the order's gain lost among the operators' own overhead), and a load twice as long."""

ORDER_ROWS = 8
"""Rows oneDNN is told to expect; its order for 8 served 1 to 64 rows alike."""

Packing = Literal["none", "ordered", "int8"]
"""How the rollout keeps its matrices: as they are, in the order that few rows want, or rounded to 8 bits."""

Product = Callable[[Tensor, Tensor | None], Tensor]
"""(x [..., in], bias [out] or None) -> x times the weight it holds [..., out]."""

Pack = Callable[[Tensor], Product]
"""(weight [out, in]) -> the product with it."""


def order_pays(model: Transformer) -> bool:
    """Return whether a model of its own on the CPU is large enough to be laid out for decoding."""
    is_on_cpu = model.embed.weight.device.type == "cpu"
    return is_on_cpu and sum(p.numel() for p in model.parameters()) >= MIN_PARAMETERS


def pack_weights(model: Transformer, packing: Packing) -> None:
    """Lay out the weights of ``model`` on the CPU for decoding, in place."""
    if packing == "none":
        return
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if not isinstance(child, nn.Linear) or name in READ_DIRECTLY:
                continue
            pack = _pack_of(child.weight.dtype, packing)
            if pack is not None and not (packing == "ordered" and child.weight.dtype == torch.float32):
                setattr(parent, name, PackedLinear(child, pack))
            else:
                child.weight.data = child.weight.data.t().contiguous().t()


@final
class PackedLinear(nn.Module):
    """A linear layer whose weight exists only as its product keeps it."""

    def __init__(self, plain: nn.Linear, pack: Pack) -> None:
        super().__init__()
        self.shape, self.dtype = plain.weight.shape, plain.weight.dtype
        self.bias: nn.Parameter | None = plain.bias
        self._pack = pack
        self._product = pack(plain.weight.detach())
        self.packed_hash = tensor_hash(plain.weight)
        """Of the weight that was packed last: the packed copy itself has other bits."""

    def forward(self, x_nD: Tensor) -> Tensor:
        """Return the product [..., out]."""
        return self._product(x_nD, self.bias)

    def _load_from_state_dict(
        self,
        state_dict: Mapping[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        del local_metadata, strict, unexpected_keys
        for name in ("weight", "bias") if self.bias is not None else ("weight",):
            given = state_dict.get(prefix + name)
            if given is None:
                missing_keys.append(prefix + name)
            elif name == "bias" and self.bias is not None:
                self.bias.data.copy_(given)
            elif given.shape != self.shape:
                error_msgs.append(f"{prefix}weight has shape {tuple(given.shape)}, not {tuple(self.shape)}")
            else:
                cast = given.to(self.dtype)
                self._product, self.packed_hash = self._pack(cast), tensor_hash(cast)


def packed_hashes(model: nn.Module) -> dict[str, int]:
    """Return the hash of every weight that only exists packed, by its name in the trainer's model."""
    return {f"{name}.weight": m.packed_hash for name, m in model.named_modules() if isinstance(m, PackedLinear)}


@final
class Head:
    """The product with the output head, off a packed copy if so wished."""

    def __init__(self, model: Transformer, packing: Packing) -> None:
        self._model = model
        self._pack = _pack_of(model.head_weight.dtype, packing)
        self.refresh()

    def refresh(self) -> None:
        """Take over the model's present head."""
        self._product = None if self._pack is None else self._pack(self._model.head_weight.detach())

    def __call__(self, hidden_nD: Tensor) -> Tensor:
        """Return logits [n, V]."""
        if self._product is None:
            return F.linear(hidden_nD, self._model.head_weight)
        return self._product(hidden_nD, None)


def _pack_of(dtype: torch.dtype, packing: Packing) -> Pack | None:
    """Return how matrices of ``dtype`` are packed; None leaves them (this CPU's oneDNN has bf16 with AVX-512 only)."""
    if packing == "int8":
        return Int8Product
    can_order = torch.backends.mkldnn.is_available() and (
        dtype == torch.float32 or torch.ops.mkldnn._is_mkldnn_bf16_supported()
    )
    return _OrderedProduct if packing == "ordered" and can_order else None


@final
class _OrderedProduct:
    """The product with a weight in oneDNN's order."""

    def __init__(self, weight_OD: Tensor) -> None:
        with torch.no_grad():
            self._ordered = torch.ops.mkldnn._reorder_linear_weight(weight_OD, ORDER_ROWS)

    def __call__(self, x: Tensor, bias_O: Tensor | None) -> Tensor:
        """Return the product [..., out]."""
        return torch.ops.mkldnn._linear_pointwise(x, self._ordered, bias_O, "none", [], "")
