"""What inductor makes of a region: the one test that calls a C++ compiler, on the smallest one that has everything."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from steptune.core.model import DenseModel
from steptune.engine.compiled import Compiled
from steptune.engine.compiler import CACHE_VARIABLE, compiler_problem
from steptune.engine.context import RunRegion, run_as_is
from steptune.engine.model import Block, with_feed_forward

PROBLEM = compiler_problem()
SPEC = DenseModel(num_layers=1, d_model=8, num_heads=2, num_kv_heads=1, d_ff=8)


def output_and_gradients(block: Block, x_ND: Tensor, run: RunRegion) -> list[Tensor]:
    x_ND = x_ND.clone().requires_grad_()
    out_ND = run(with_feed_forward, block, x_ND, x_ND.detach(), x_ND.new_empty(len(x_ND), 0))
    out_ND.square().sum().backward()
    found = [out_ND, x_ND.grad, block.ffn_norm.weight.grad]
    block.zero_grad()
    return [x for x in found if x is not None]


@pytest.mark.filterwarnings("ignore")  # inductor's modules use what torch itself has deprecated
@pytest.mark.skipif(PROBLEM is not None, reason=f"nothing can be compiled here: {PROBLEM}")
def test_compiled_cpp_gives_the_same_numbers_at_every_length_and_one_graph_serves_them_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    torch.set_num_threads(1)
    block, compiled = Block(SPEC, 0), Compiled()
    for num_positions in (6, 33, 16, 1):
        x_ND = torch.randn(num_positions, 8, generator=torch.Generator().manual_seed(num_positions))
        ours, plain = (output_and_gradients(block, x_ND, run) for run in (compiled, run_as_is))
        assert len(ours) == 3
        torch.testing.assert_close(ours, plain, rtol=1e-4, atol=1e-5)
    assert compiled.num_graphs == 1
    assert any((tmp_path / "cache").rglob("*.cpp")), "what was compiled lies where the variable says"
