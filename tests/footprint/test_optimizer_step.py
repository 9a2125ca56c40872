import pytest
from layouts import FSDP_8

from steptune.core.estimate import Estimate, Source
from steptune.footprint.fit import judge
from steptune.footprint.layout import JobLayout, Place, TrainLayout
from steptune.footprint.phases import PhaseBytes, PhaseName, phase_bytes
from steptune.footprint.step import bucket_term, step_terms
from steptune.footprint.weights import casts_term, frozen_term, optimizer_term, weight_term
from steptune.shapes.count import parameters
from steptune.shapes.registry import named_shape

LLAMA = named_shape("llama-2-7b")
COUNT = sum((parameters(LLAMA).embedding, parameters(LLAMA).head, parameters(LLAMA).backbone))
ZERO_2 = TrainLayout(
    num_devices=8, sharding="gradients", grad_bytes=2, step="deepspeed", micro_tokens=1_024, longest=1_024
)
V100 = Estimate(value=31.75 * 2**30, unit="bytes", source=Source.PUBLISHED)


def phase(layout: TrainLayout, name: PhaseName) -> PhaseBytes:
    return next(one for one in phase_bytes(LLAMA, JobLayout(train=layout), V100.value) if one.phase is name)


def test_a_step_of_deepspeed_has_gradients_in_fp32_and_one_copy() -> None:
    gradients, copy = step_terms(LLAMA, ZERO_2)
    assert gradients.mid == pytest.approx(4 * COUNT / 8)
    assert (copy.low, copy.mid) == (0, pytest.approx(4 * COUNT / 8))


def test_the_published_failure_in_adams_denominator_is_not_called_a_fit() -> None:
    # LLaMA-7B, 8 x V100, stage 2: 2 + (2 + 4 + 8 + 4 + 4) / 8 bytes a parameter = 30 GiB, and the buckets
    found = judge(LLAMA, JobLayout(train=ZERO_2), V100)
    assert found.answer == "too close to call"
    assert found.tightest is PhaseName.STEP
    assert judge(LLAMA, JobLayout(train=ZERO_2.model_copy(update={"sharding": "full"})), V100).answer == "fits"


def test_a_fused_step_and_one_on_the_host_need_nothing_more() -> None:
    assert step_terms(LLAMA, FSDP_8) == []
    assert step_terms(LLAMA, ZERO_2.model_copy(update={"optimizer": Place.HOST})) == []


def test_the_copy_is_in_the_precision_that_is_stepped() -> None:
    bf16 = FSDP_8.model_copy(update={"weight_bytes": 2, "step": "foreach"})
    assert step_terms(LLAMA, bf16)[0].mid == pytest.approx(2 * COUNT / 8)


def test_activations_are_gone_when_the_optimizer_steps() -> None:
    names = {term.name for term in phase(ZERO_2, PhaseName.STEP).terms}
    assert "fp32 gradients of the step" in names
    assert not names & {"logits", "layer inputs", "activations", "one layer at work"}


def test_a_critic_doubles_states_and_frozen_models_add_weights() -> None:
    pair = ZERO_2.model_copy(update={"trained_models": 2, "frozen_models": 2})
    assert weight_term(LLAMA, pair).mid == 2 * weight_term(LLAMA, ZERO_2).mid
    assert optimizer_term(LLAMA, pair).mid == 2 * optimizer_term(LLAMA, ZERO_2).mid
    assert frozen_term(LLAMA, pair).mid == pytest.approx(2 * 2 * COUNT)
    assert bucket_term(pair).mid == 2 * bucket_term(ZERO_2).mid


def test_at_most_two_buckets_stand() -> None:
    # 2 x 5e8 entries of two bytes
    assert (bucket_term(ZERO_2).low, bucket_term(ZERO_2).high) == (0, 2e9)


def test_quantized_weights_leave_the_tables_alone() -> None:
    layout = TrainLayout(
        num_devices=1, sharding="none", weight_bytes=0.5, table_bytes=2, micro_tokens=1, longest=1, lora_rank=8
    )
    tables = parameters(LLAMA).embedding + parameters(LLAMA).head
    assert weight_term(LLAMA, layout).mid == pytest.approx(0.5 * (COUNT - tables) + 2 * tables)


def test_autocast_keeps_casts_of_whole_fp32_weights() -> None:
    whole = TrainLayout(
        num_devices=1, sharding="none", weight_bytes=4, has_master=False, has_casts=True, micro_tokens=1, longest=1
    )
    assert casts_term(LLAMA, whole).mid == pytest.approx(2 * COUNT)
    assert casts_term(LLAMA, whole.model_copy(update={"has_casts": False})).high == 0
