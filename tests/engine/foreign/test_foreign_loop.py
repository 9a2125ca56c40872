"""The loop over a foreign engine, and the probe that says whether its weights are the trainer's."""

from pathlib import Path

import pytest
import torch
from foreign_cases import SPEC, stub_engine

from steptune.core.errors import JobError, TrialError
from steptune.core.job import AlgorithmSpec, JobSpec, MathWorkload
from steptune.core.model import MoEModel
from steptune.engine.foreign.arrival import ArrivalProbe, own_logprobs
from steptune.engine.knob_checks import check_foreign
from steptune.engine.knobs import EngineKnobs
from steptune.engine.loop import Loop, LoopSpec
from steptune.engine.model import Transformer, build_model
from steptune.engine.produce import TOKENIZER
from steptune.engine.supply.foreign import Foreign
from steptune.engine.supply.state import LoopState
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


def test_a_step_trains_on_foreign_rollouts_and_leaves_no_server(tmp_path: Path) -> None:
    engines = []

    def source(state: LoopState) -> Foreign:
        engines.append(stub_engine(tmp_path / "vllm"))
        return Foreign(state, engines[0])

    model = build_model(SPEC, TOKENIZER.vocab_size, 0)
    start = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    spec = LoopSpec(job=JOB, knobs=KNOBS, seed=1, forced=None, capture_batches=0, folder=tmp_path)
    with torch_threads(KNOBS.train_threads + 1):
        loop = Loop(spec, model, start, source)
        server = engines[0].server
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
