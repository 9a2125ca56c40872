"""Offloading under the real model and the real trainer."""

import logging
from pathlib import Path

import pytest
import torch
from torch import Tensor

from steptune.core.errors import JobError
from steptune.core.job import AlgorithmSpec
from steptune.core.model import DenseModel, ModelSpec, MoEModel
from steptune.engine.attention import attend_runs
from steptune.engine.context import Context
from steptune.engine.knobs import EngineKnobs
from steptune.engine.micro_batch import Run
from steptune.engine.model import Transformer, build_model
from steptune.engine.offload.devices import offload_to_file, offload_to_host
from steptune.engine.offload.step import Offload, OffloadStep
from steptune.engine.trainer import Trainer

torch.set_num_threads(1)

VOCAB = 23
DENSE = DenseModel(num_layers=4, d_model=16, num_heads=4, num_kv_heads=2, d_ff=24)
MOE = MoEModel(num_layers=4, d_model=16, num_heads=4, num_kv_heads=2, num_experts=4, top_k=2, d_expert=8, qk_norm=False)


def gradients(model: Transformer, recompute: bool | OffloadStep, *, bf16: bool) -> list[Tensor | None]:
    """Return the gradients of one packed micro-batch."""
    runs = [Run(9, 2), Run(5, 1)]
    tokens = torch.randint(0, VOCAB, (23,), generator=torch.Generator().manual_seed(1))
    positions = torch.cat([torch.arange(9), torch.arange(9), torch.arange(5)])
    with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
        hidden = model.hidden(tokens, positions, Context(attend=attend_runs(runs)), recompute=recompute)
        loss = model.logits(hidden).float().logsumexp(-1).square().mean()
    loss.backward()
    found = [p.grad for p in model.parameters()]
    model.zero_grad(set_to_none=True)
    return found


@pytest.mark.parametrize("bf16", [False, True])
@pytest.mark.parametrize("spec", [DENSE, MOE], ids=["dense", "moe"])
def test_a_models_gradients_are_bit_equal_however_its_inputs_wait(
    spec: ModelSpec, tmp_path: Path, *, bf16: bool
) -> None:
    model, offload = build_model(spec, VOCAB, 3), offload_to_file(tmp_path, min_bytes=1)
    kept, again = (gradients(model, recompute, bf16=bf16) for recompute in (False, True))
    with offload.step() as step:
        mine = gradients(model, step, bf16=bf16)
    assert offload.decision is not None
    assert offload.decision.is_on
    for a, b, c in zip(kept, again, mine, strict=True):
        assert a is not None
        assert b is not None
        assert c is not None
        assert torch.equal(a, b)
        assert torch.equal(a, c)


def test_on_a_cpu_offloading_to_the_host_says_that_it_is_off_and_recomputes(caplog: pytest.LogCaptureFixture) -> None:
    model, offload = build_model(DENSE, VOCAB, 3), offload_to_host(torch.device("cpu"))
    again = gradients(model, True, bf16=False)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            with offload.step() as step:
                mine = gradients(model, step, bf16=False)
    assert all(a is not None and b is not None and torch.equal(a, b) for a, b in zip(again, mine, strict=True))
    assert [record.message for record in caplog.records] == [
        "`offload` was asked for and is off, layers are recomputed: the device's memory is the host's: a copy there "
        "frees nothing"
    ], "said once"


def test_a_copy_that_turns_out_slow_switches_offloading_off_for_the_next_forward(tmp_path: Path) -> None:
    model, offload = build_model(DENSE, VOCAB, 3), offload_to_file(tmp_path, min_bytes=1)
    for copy_s, is_on in ((None, True), (0.5, False), (0.001, True)):
        offload.layer_s, offload.copy_s = (None, None) if copy_s is None else (0.1, copy_s)
        with offload.step() as step:
            gradients(model, step, bf16=False)
        assert offload.decision is not None
        assert offload.decision.is_on is is_on


def test_the_trainer_refuses_offload_without_recompute() -> None:
    algorithm = AlgorithmSpec.model_validate({"group_size": 4, "max_completion_len": 9, "lr": 1e-2})
    with pytest.raises(JobError, match="set `recompute` too"):
        Trainer(build_model(DENSE, VOCAB, 3), algorithm, EngineKnobs(offload=True), 0)
    trainer = Trainer(build_model(DENSE, VOCAB, 3), algorithm, EngineKnobs(offload=True, recompute=True), 0)
    assert isinstance(trainer.gradients.offload, Offload)
    trainer.configure(EngineKnobs(recompute=True))
    assert trainer.gradients.offload is None
