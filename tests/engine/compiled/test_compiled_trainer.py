"""Compiled regions: same numbers, no graph for a new length, nothing compiled in a step.

Graphs are traced and differentiated as ever but run by torch's operators, so no C++ compiler is needed; what inductor
makes of them is `test_inductor.py`.
"""

import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from steptune.core.errors import JobError
from steptune.core.job import KnobsSpec
from steptune.core.model import HybridMoEModel
from steptune.core.profile import START_UP
from steptune.engine import compiled as compiled_module
from steptune.engine import compiler, probe
from steptune.engine.events import Recorder
from steptune.engine.gradients import Gradients
from steptune.engine.inputs import MicroInputs
from steptune.engine.knobs import EngineKnobs
from steptune.engine.micro_batch import Run
from steptune.engine.model import Transformer, build_model
from steptune.engine.trainer import Trainer, TrainStats
from steptune.engine.warm_up import made_up_inputs

sys.path += [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "ranks")]
from loop_cases import small_job, small_loop
from rank_cases import MODELS, rank_trainer
from trainer_cases import VOCAB, scored_batch, small_trainer

HYBRID_MOE = HybridMoEModel(
    num_layers=4, d_model=16, num_heads=2, num_kv_heads=1, head_dim=8, num_experts=4, top_k=2, d_expert=8,
    d_shared_expert=8, linear_key_heads=1, linear_value_heads=2, linear_key_dim=8, linear_value_dim=8,
)  # fmt: skip
FAMILIES = {**MODELS, "hybrid_moe": HYBRID_MOE}
CASES = [("dense", True), ("moe", False), ("hybrid_moe", False)]
"""Families that have every part between them, recomputed layers with the first."""

CPU = torch.device("cpu")
pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")
"""Torch's tracing looks at gradients of inner tensors, and hides a warning that suites like ours make an error."""

ROUNDING = 1e-5
"""Relative distance of gradients in float32."""


def traced(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> Callable[..., Any]:
    """Stand in for inductor: the same graphs, run operator by operator."""
    from torch._dynamo.backends.debugging import aot_eager

    return aot_eager(graph, inputs)


@pytest.fixture(autouse=True)
def _without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled_module, "inductor", traced)
    monkeypatch.setattr(compiler.shutil, "which", lambda name: f"/usr/bin/{name}")


def lively(family: str) -> Transformer:
    model = build_model(FAMILIES[family], VOCAB, 3)
    with torch.no_grad():
        for name, param in model.named_parameters():
            if param.ndim >= 2 and not name.endswith("conv"):
                param.mul_(4)
    return model


@cache
def both(family: str, **knobs: object) -> tuple[Gradients, Gradients]:
    """Return gradients of one model as it stands and compiled, once a family: tracing takes seconds."""
    trainer = small_trainer()
    made = (EngineKnobs.model_validate({"train_threads": 1, "compile": is_on, **knobs}) for is_on in (False, True))
    plain, compiled = (Gradients(lively(family), trainer.algorithm, each, 0) for each in made)
    return plain, compiled


def gradient(gradients: Gradients, inputs: MicroInputs) -> tuple[Tensor, Tensor]:
    """Return log-probs and the flat gradient of their sum."""
    model, knobs = gradients.model, gradients.knobs
    out_C = gradients._forward(model, inputs, recompute=knobs.recompute)  # pyright: ignore[reportPrivateUsage]
    out_C.square().sum().backward()
    flat = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
    for param in model.parameters():
        param.grad = None
    return out_C.detach(), flat


def runs_of(width: int) -> tuple[Run, ...]:
    return Run(width=width, num_rows=3), Run(width=width + 3, num_rows=2)


@pytest.mark.parametrize(("family", "recompute"), CASES)
def test_loss_and_gradient_are_those_of_the_layers_as_they_stand_and_new_lengths_compile_nothing(
    family: str, recompute: bool
) -> None:
    plain, compiled = both(family, recompute=recompute)
    num_warm = compiled.compiled.num_graphs
    assert num_warm > 0
    for width in (2, 8, 13, 40):
        inputs = made_up_inputs(runs_of(width), CPU)
        (plain_C, plain_grad), (compiled_C, compiled_grad) = (gradient(each, inputs) for each in (plain, compiled))
        torch.testing.assert_close(compiled_C, plain_C, rtol=1e-5, atol=1e-5)
        assert float((compiled_grad - plain_grad).norm() / plain_grad.norm()) < ROUNDING
    assert compiled.compiled.num_graphs == num_warm
    assert plain.compiled.num_graphs == 0


@pytest.mark.parametrize(("family", "recompute"), CASES)
def test_packed_documents_do_not_leak_into_each_other(family: str, recompute: bool) -> None:
    _, compiled = both(family, recompute=recompute)
    together, _ = gradient(compiled, made_up_inputs((Run(width=7, num_rows=1), Run(width=5, num_rows=1)), CPU))
    alone, _ = gradient(compiled, made_up_inputs((Run(width=5, num_rows=1),), CPU))
    torch.testing.assert_close(together[6:], alone, rtol=1e-5, atol=1e-5)  # 7 positions predict 6 tokens


def test_bf16_compiled_stays_as_close_to_fp32_as_bf16_does() -> None:
    inputs = made_up_inputs(runs_of(11), CPU)
    (exact, _), (half, half_compiled) = both("dense"), both("dense", train_dtype="bf16")
    truth, plain, ours = (gradient(each, inputs)[1] for each in (exact, half, half_compiled))
    assert float((ours - truth).norm()) < 1.5 * float((plain - truth).norm())


def update(trainer: Trainer, seed: int) -> TrainStats:
    recorder = Recorder()
    prepared = trainer.prepare(scored_batch(seed=seed), recorder)
    return trainer.update(prepared, weights_version=5, recorder=recorder)


def test_no_update_compiles_anything_and_one_that_does_says_so() -> None:
    knobs = EngineKnobs(train_threads=1, compile=True, layout="packed", micro_batch_tokens=60, logprob_batch_tokens=40)
    trainer = small_trainer(knobs=knobs)
    num_graphs = trainer.gradients.compiled.num_graphs
    assert trainer.gradients.warm_up_s > 0
    assert [update(trainer, seed).num_compiled for seed in range(3)] == [0, 0, 0]
    trainer.configure(knobs.model_copy(update={"compile": False}))
    assert update(trainer, 3).num_compiled is None
    trainer.configure(knobs.model_copy(update={"layout": "padded"}))
    assert update(trainer, 4).num_compiled == 0
    assert trainer.gradients.compiled.num_graphs == num_graphs > 0
    torch.set_num_threads(2)  # nobody told the trainer: inductor writes the number of threads into its loops
    try:
        assert (update(trainer, 5).num_compiled or 0) > 0
    finally:
        torch.set_num_threads(1)


def test_the_first_step_of_a_run_says_that_nothing_was_compiled_in_it(tmp_path: Path) -> None:
    loop = small_loop(small_job(kl_coef=0.1), tmp_path, compile=True, layout="packed")
    steps = [loop.step(), loop.step()]
    loop.close()
    assert [step.num_compiled for step in steps] == [0, 0]
    assert steps[0].mismatch is not None
    assert steps[0].mismatch.k3 < 1e-6


def test_both_ranks_compile_before_their_first_update(tmp_path: Path) -> None:
    trainer = rank_trainer("dense", 2, tmp_path, compile=True, layout="packed")
    counted = [update(trainer, seed).num_compiled for seed in range(2)]
    second = trainer.second
    assert second is not None
    assert second.worker.rank.gradients.warm_up_s > 0  # type: ignore[attr-defined]
    trainer.close()
    assert counted == [0, 0]


def test_the_probe_prices_both_ways_and_how_long_compiling_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "SIZES", (64, 96, 128, 160))
    knobs = KnobsSpec(allow=("compile",), pin={"recompute": False, "layout": "packed"})
    job = small_job().model_copy(update={"knobs": knobs})
    curves = probe.probe_trainer(job, (1,), ("fp32",), budget_s=0.0)
    assert {curve.when["compile"] for curve in curves if curve.name == "train"} == {False, True}
    assert len([curve for curve in curves if curve.name == "logprob"]) == 1
    (start,) = [curve for curve in curves if curve.name == START_UP]
    assert start.when == {"compile": True}
    assert start.points[0].seconds > 0


def test_without_a_compiler_a_trainer_is_refused_before_it_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler.shutil, "which", lambda name: None)
    with pytest.raises(JobError, match=r"no C\+\+ compiler `.+`; allowed: .+; hint: install it"):
        small_trainer(knobs=EngineKnobs(compile=True))


def test_compiled_layers_are_not_offloaded() -> None:
    with pytest.raises(JobError, match="`compile` does not go with `offload`"):
        small_trainer(knobs=EngineKnobs(compile=True, recompute=True, offload=True))


def test_an_older_torch_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "compile", lambda model, *, fullgraph, dynamic: model)
    with pytest.raises(JobError, match="`compile` needs a newer torch"):
        small_trainer(knobs=EngineKnobs(compile=True))
