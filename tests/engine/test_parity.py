import math
from pathlib import Path

import pytest
import torch
from trainer_cases import GROUP, MAX_LEN, SPEC, scored_batch

from steptune.core.errors import TrialError
from steptune.core.framework import ParityInput, ParityOutput
from steptune.core.job import AlgorithmSpec, JobSpec
from steptune.core.knob import KnobValue
from steptune.engine.damping import Damping
from steptune.engine.knobs import EngineKnobs
from steptune.engine.model import build_model
from steptune.engine.parity import load_batches, param_distance, replay, save_batch, shuffled, tensor_distances
from steptune.envs.math.tokenizer import MathTokenizer

NUM_BATCHES = 3


def job(**algorithm: object) -> JobSpec:
    fields = {"group_size": GROUP, "max_completion_len": MAX_LEN, "lr": 1e-3, **algorithm}
    return JobSpec(name="parity", model=SPEC, algorithm=AlgorithmSpec.model_validate(fields))


def start() -> dict[str, torch.Tensor]:
    state = build_model(SPEC, MathTokenizer().vocab_size, seed=4).state_dict()
    return {name: 8 * value if value.ndim == 2 else value for name, value in state.items()}


@pytest.fixture
def captured(tmp_path: Path) -> Path:
    for number in range(NUM_BATCHES):
        save_batch(tmp_path / "batches", number, scored_batch(seed=number))
    return tmp_path / "batches"


DAMPING = Damping()
"""Set by the first replay."""


def run(spec: JobSpec, folder: Path, seed: int | None = None, **settings: KnobValue) -> ParityOutput:
    knobs: dict[str, KnobValue] = {**EngineKnobs(train_threads=1, micro_batch_tokens=64).model_dump(), **settings}
    name = f"{seed}-{'-'.join(map(str, settings.values()))}.pt"
    parity = ParityInput(settings=knobs, batches_dir=str(folder), shuffle_seed=seed)
    return replay(spec, parity, start(), folder.parent / name, DAMPING)


def test_batches_come_back_as_they_were_saved(captured: Path) -> None:
    batches = load_batches(captured)
    assert len(batches) == NUM_BATCHES
    for number, batch in enumerate(batches):
        original = scored_batch(seed=number)
        assert torch.equal(batch.advantage_B, original.advantage_B)
        assert torch.equal(batch.rollout.completion_BT, original.rollout.completion_BT)
        assert torch.equal(batch.rollout.prompts.tokens_BP, original.rollout.prompts.tokens_BP)
        assert batch.rollout.entropy == original.rollout.entropy


def test_the_same_settings_replay_to_the_same_bits(captured: Path) -> None:
    a, b = run(job(), captured), run(job(), captured)
    assert param_distance(a, b) == 0
    assert a.grad_norms == b.grad_norms
    assert len(a.grad_norms) == NUM_BATCHES
    assert a.param_delta_norm > 0
    assert len(a.probe_logprobs) == int(scored_batch().rollout.lengths_B.sum())


def test_distances_of_tensors_name_the_one_that_differs_and_add_up_to_the_whole(tmp_path: Path) -> None:
    outputs = list[ParityOutput]()
    for number, norm in enumerate((1.0, 4.0)):
        path = tmp_path / f"{number}.pt"
        torch.save({"head": torch.tensor([3.0, norm]), "body": torch.ones(2, 2)}, path)
        outputs.append(
            ParityOutput(params_path=str(path), probe_logprobs=(), grad_norms=(), param_delta_norm=6.0 * (1 - number))
        )
    assert tensor_distances(outputs[0], outputs[1]) == {"head": 0.5, "body": 0.0}  # (4 - 1) / 6
    assert param_distance(outputs[0], outputs[1]) == 0.5
    assert all(math.isnan(each) for each in tensor_distances(outputs[1], outputs[0]).values())  # it has not moved


def test_packing_stays_inside_the_rounding_band_and_a_wrong_loss_does_not(captured: Path) -> None:
    baseline = run(job(), captured)
    band = max(param_distance(baseline, run(job(), captured, seed)) for seed in (1, 2, 3))
    assert 0 < band < 1e-2
    assert param_distance(baseline, run(job(), captured, layout="packed", recompute=True)) < 4 * band
    assert param_distance(baseline, run(job(), captured, layout="shared_prefix")) < 4 * band
    # shuffled rows find their group by its number
    assert param_distance(baseline, run(job(), captured, 4, layout="shared_prefix")) < 4 * band
    wrong = run(job(loss_aggregation="seq_mean_token_mean"), captured, layout="padded")
    assert param_distance(baseline, wrong) > 20 * band


def test_lower_precision_is_seen(captured: Path) -> None:
    baseline, shuffled_once = run(job(), captured), run(job(), captured, 1)
    bf16 = run(job(), captured, train_dtype="bf16")
    assert param_distance(baseline, bf16) > 3 * param_distance(baseline, shuffled_once)


def test_the_probe_is_a_function_of_the_parameters_alone(captured: Path) -> None:
    a, b = (run(job(lr=1e-30), captured, train_dtype=dtype) for dtype in ("fp32", "bf16"))
    assert a.probe_logprobs == pytest.approx(b.probe_logprobs, abs=1e-6)


def test_shuffling_keeps_every_row_in_its_own_update() -> None:
    spec, batch = job(num_updates=2), scored_batch()
    mixed = shuffled(batch, spec, torch.Generator().manual_seed(0))
    for half in (slice(0, 8), slice(8, 16)):
        assert sorted(mixed.advantage_B[half].tolist()) == sorted(batch.advantage_B[half].tolist())
    assert mixed.advantage_B.tolist() != batch.advantage_B.tolist()
    row = int((mixed.advantage_B == batch.advantage_B[5]).nonzero())
    assert torch.equal(mixed.rollout.completion_BT[row], batch.rollout.completion_BT[5])
    assert torch.equal(mixed.rollout.prompts.tokens_BP[row], batch.rollout.prompts.tokens_BP[5])


def test_a_kl_term_replays_against_the_start(captured: Path) -> None:
    pulled = run(job(kl_coef=1.0), captured)
    assert pulled.grad_norms[0] == pytest.approx(run(job(), captured).grad_norms[0], rel=1e-4)  # no distance yet
    assert pulled.grad_norms[2] != pytest.approx(run(job(), captured).grad_norms[2], rel=1e-4)


def test_a_replay_that_did_not_move_has_no_distance(captured: Path) -> None:
    output = run(job(), captured).model_copy(update={"param_delta_norm": 0.0})
    assert math.isnan(param_distance(output, output))


def test_an_empty_folder_is_a_failed_capture(tmp_path: Path) -> None:
    with pytest.raises(TrialError, match="no captured batch"):
        load_batches(tmp_path)
