"""The loop over a foreign engine, and the probe that says whether its weights are the trainer's."""

from pathlib import Path

import pytest
import torch
from foreign_cases import SPEC, child_of, is_alive, stub_engine

from steptune.core.errors import JobError, TrialError
from steptune.core.job import AlgorithmSpec, JobSpec, MathWorkload
from steptune.core.model import MoEModel
from steptune.engine.foreign.arrival import ArrivalProbe, own_logprobs
from steptune.engine.foreign.vllm import VllmEngine
from steptune.engine.knob_checks import check_foreign
from steptune.engine.knobs import EngineKnobs
from steptune.engine.loop import Loop, LoopSpec
from steptune.engine.model import Transformer, build_model
from steptune.engine.produce import TOKENIZER
from steptune.engine.supply.foreign import Foreign
from steptune.engine.threads import torch_threads

KNOBS = EngineKnobs(rollout_engine="vllm", handover="file", compact_finished=True)
JOB = JobSpec(
    name="foreign",
    model=SPEC,
    workload=MathWorkload(levels=(1,), num_validation=20),
    algorithm=AlgorithmSpec(prompts_per_step=2, group_size=2, max_completion_len=8),
)


class Copy:
    """A foreign engine with weights of its own."""

    def __init__(self, model: Transformer) -> None:
        self.model = model

    def score(self, tokens: list[int]) -> list[float]:
        found: list[float] = own_logprobs(self.model, tokens).tolist()
        return found


def two_models() -> tuple[Transformer, Transformer]:
    return build_model(SPEC, TOKENIZER.vocab_size, 0), build_model(SPEC, TOKENIZER.vocab_size, 0)


def moved(model: Transformer, names: tuple[str, ...], by: float) -> None:
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, tensor in model.named_parameters():
            noise = torch.randn(tensor.shape, generator=generator)
            if not names or name in names:
                tensor += by * noise


def foreign_loop(folder: Path, how: str = "") -> tuple[Loop, VllmEngine]:
    """Return a loop over the stub, a checkpoint behind every step; close it."""
    engine = stub_engine(folder / "vllm", how)
    model = build_model(SPEC, TOKENIZER.vocab_size, 0)
    start = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    spec = LoopSpec(job=JOB, knobs=KNOBS, seed=1, forced=None, capture_batches=0, folder=folder, checkpoint_every=1)
    return Loop(spec, model, start, lambda state: Foreign(state, engine)), engine


def test_a_step_trains_on_foreign_rollouts_and_leaves_no_server(tmp_path: Path) -> None:
    with torch_threads(KNOBS.train_threads + 1):
        loop, engine = foreign_loop(tmp_path)
        server = engine.server
        assert server is not None
        try:
            step = loop.step()
            assert torch.get_num_threads() == KNOBS.train_threads
        finally:
            loop.close()
    assert step.mismatch is not None
    assert step.mismatch.mean_abs > 0.1  # the stub's log-probs are no model's, and the gap says so
    assert step.num_rollouts == 4
    assert not server.is_running()
    assert not (tmp_path / "vllm" / "weights").exists()


def test_a_server_that_dies_in_the_middle_of_a_step_is_named_and_the_run_goes_on_from_what_was_trained(
    tmp_path: Path,
) -> None:
    with torch_threads(KNOBS.train_threads):
        # asked of it: the probe's tokens when it starts and in step 0, then two groups in each step
        loop, engine = foreign_loop(tmp_path, "die_on_ask=6")
        server = engine.server
        assert server is not None
        child = child_of(server.log)
        loop.step()
        loop.source._probe = None  # type: ignore[union-attr]  the stub has no weights that could arrive
        before = {name: tensor.clone() for name, tensor in loop.model.state_dict().items()}
        with pytest.raises(TrialError, match=r"died during `/v1/completions`.*head_dim=16.*hint: read"):
            loop.step()
        assert loop.step_index == loop.state.version == 1
        assert all(torch.equal(tensor, before[name]) for name, tensor in loop.model.state_dict().items())
        loop.close()
        assert not server.is_running()
        assert not is_alive(child or 0)
        again, _ = foreign_loop(tmp_path)
        again.source._probe = None  # type: ignore[union-attr]
        assert again.resume() == ()
        assert all(torch.equal(tensor, before[name]) for name, tensor in again.model.state_dict().items())
        step = again.step()
        again.close()
    assert (step.step, step.weight_version) == (1, 2)


def test_weights_that_moved_on_both_sides_have_arrived() -> None:
    ours, theirs = two_models()
    probe = ArrivalProbe(ours, Copy(theirs), "fp32", TOKENIZER.vocab_size)
    assert probe.check() == "too_early"
    for model in (ours, theirs):
        moved(model, (), 0.05)
    assert probe.check() == "arrived"


@pytest.mark.parametrize("names", [("none",), ("norm.weight",)])
def test_weights_that_stayed_or_came_in_part_are_an_error(names: tuple[str, ...]) -> None:
    ours, theirs = two_models()
    probe = ArrivalProbe(ours, Copy(theirs), "fp32", TOKENIZER.vocab_size)
    moved(ours, (), 0.05)
    moved(theirs, names, 0.05)
    with pytest.raises(TrialError, match="does not have the trainer's weights"):
        probe.check()


def test_knobs_that_would_not_be_true_are_refused() -> None:
    with pytest.raises(JobError, match="got schedule=one_step_off, handover=copy; allowed: schedule=sync"):
        check_foreign(KNOBS.model_copy(update={"schedule": "one_step_off", "handover": "copy"}), SPEC)
    with pytest.raises(JobError, match="got rollout_dtype=int8"):
        check_foreign(KNOBS.model_copy(update={"rollout_dtype": "int8"}), SPEC)
    with pytest.raises(JobError, match="got MoEModel; allowed: DenseModel"):
        check_foreign(KNOBS, MoEModel())
    check_foreign(KNOBS, SPEC)
