"""The ways to attend over one packed micro-batch that `bench/metadata.py` compares, each counting its builds.

    dense_per_layer   block-diagonal mask [N, N] built again in every layer (vectorised), one attention over all
    dense_cached      the same mask built once per micro-batch: what a metadata cache gives
    padded            one run as wide as the longest row, causal, no mask
    packed            runs of equal rows (the engine's): metadata built once, no mask
    shared_prefix     the engine's, each group's prompt computed once

Shape letters: N positions, H query head, K key/value head, E head dim.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from unittest import mock

import torch
import torch.nn.functional as F
from torch import Tensor

from steptune.engine import inputs as engine_inputs
from steptune.engine.attention import attend_runs
from steptune.engine.context import Attend
from steptune.engine.micro_batch import Run
from steptune.engine.plan import Layout

LAYOUTS: dict[str, Layout] = {
    "dense_per_layer": "packed",
    "dense_cached": "packed",
    "padded": "padded",
    "packed": "packed",
    "shared_prefix": "shared_prefix",
}
"""The engine's layout under each arm."""


class Builds:
    """How often attention metadata was built."""

    count = 0


def attend_of(arm: str, builds: Builds) -> Callable[..., Attend]:
    """Return what takes the place of `engine.attention.attend_runs` under ``arm``."""
    if arm in ("padded", "packed", "shared_prefix"):
        return _counted(builds)
    return lambda runs, *_args, **_kwargs: _dense(runs, builds, is_cached=arm == "dense_cached")


@contextmanager
def engine_attends_by(arm: str, builds: Builds) -> Iterator[None]:
    """Let the trainer build its inputs with ``arm``'s attention."""
    with mock.patch.object(engine_inputs, "attend_runs", attend_of(arm, builds)):
        yield


def _counted(builds: Builds) -> Callable[..., Attend]:
    def build(runs: Sequence[Run], prompt_of: Sequence[int] = (), **device: torch.device) -> Attend:
        builds.count += 1
        return attend_runs(runs, prompt_of, **device)

    return build


def _dense(runs: Sequence[Run], builds: Builds, *, is_cached: bool) -> Attend:
    lengths_R = torch.tensor([run.width for run in runs for _ in range(run.num_rows)])

    def mask() -> Tensor:
        builds.count += 1
        document_N = torch.arange(len(lengths_R)).repeat_interleave(lengths_R)
        return (document_N[:, None] == document_N).tril_()

    cached_NN = mask() if is_cached else None

    def attend(_layer: int, q_NHE: Tensor, k_NKE: Tensor, v_NKE: Tensor) -> Tensor:
        mask_NN = mask() if cached_NN is None else cached_NN
        q, k, v = (x.transpose(0, 1)[None] for x in (q_NHE, k_NKE, v_NKE))
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask_NN, enable_gqa=True)
        return out[0].transpose(0, 1)

    return attend
