"""Weights, gradients and optimizer states against the published bytes a parameter."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from layouts import FSDP_8, MEGATRON_64

from steptune.footprint.layout import TrainLayout
from steptune.footprint.weights import (
    gathered_term,
    gradient_term,
    local_parameters,
    optimizer_term,
    reference_term,
    weight_term,
)
from steptune.shapes.count import adapter_parameters, parameters
from steptune.shapes.registry import models, named_shape

QWEN = named_shape("qwen2.5-7b")
COUNT = parameters(QWEN).total


def per_parameter(layout: TrainLayout) -> float:
    return sum(term(QWEN, layout).mid for term in (weight_term, gradient_term, optimizer_term)) / COUNT


@pytest.mark.parametrize("ways", [1, 4, 32])
def test_megatron_needs_the_bytes_a_parameter_of_its_own_table(ways: int) -> None:
    # bf16 weights, fp32 gradients: 6 + 12 / d (Megatron-LM, distributed optimizer)
    layout = MEGATRON_64.model_copy(update={"num_devices": ways, "tensor": 1, "pipeline": 1})
    assert per_parameter(layout) == pytest.approx(6 + 12 / ways)


@pytest.mark.parametrize(
    ("sharding", "expected"),
    [("none", 16), ("optimizer", 4 + 12 / 64), ("gradients", 2 + 14 / 64), ("full", 16 / 64)],
)
def test_zero_needs_the_bytes_a_parameter_of_its_paper(sharding: str, expected: float) -> None:
    # figure 1 of arXiv 1910.02054, Psi = 7.5e9, 64 devices: 120, 31.4, 16.6 and 1.9 GB
    layout = TrainLayout.model_validate(
        {"num_devices": 64, "sharding": sharding, "grad_bytes": 2, "micro_tokens": 1, "longest": 1}
    )
    assert per_parameter(layout) == pytest.approx(expected)


def test_fsdp_with_fp32_weights_divides_sixteen_bytes() -> None:
    assert per_parameter(FSDP_8) == pytest.approx(16 / 8)


def test_eight_bit_states_are_a_quarter() -> None:
    small = FSDP_8.model_copy(update={"optimizer_bytes": 2})
    assert optimizer_term(QWEN, small).mid * 4 == pytest.approx(optimizer_term(QWEN, FSDP_8).mid)


def test_adapters_alone_have_gradients_and_states() -> None:
    layout = FSDP_8.model_copy(update={"lora_rank": 32, "weight_bytes": 2})
    numbers = adapter_parameters(QWEN, 32) / 8
    assert gradient_term(QWEN, layout).mid == pytest.approx(numbers * 4)
    assert optimizer_term(QWEN, layout).mid == pytest.approx(numbers * 8)
    assert weight_term(QWEN, layout).mid == pytest.approx(COUNT * 2 / 8)


def test_experts_are_divided_by_expert_parallelism() -> None:
    shape = named_shape("qwen3-30b-a3b")
    count = parameters(shape)
    local = local_parameters(
        shape, TrainLayout(num_devices=64, sharding="optimizer", expert=8, micro_tokens=1, longest=1)
    )
    assert local.experts == count.experts / 8
    assert local.dense == count.total - count.experts
    assert (local.dense_ways, local.expert_ways) == (64, 8)


def test_a_single_device_gathers_nothing() -> None:
    assert gathered_term(QWEN, FSDP_8.model_copy(update={"num_devices": 1}), with_grads=True).high == 0


@given(st.sampled_from(models()), st.sampled_from([1, 2, 4, 8]), st.integers(0, 6))
def test_more_devices_never_hold_more_each(model: object, tensor: int, power: int) -> None:
    shape = model.shape()  # type: ignore[attr-defined]
    few = TrainLayout(num_devices=tensor * 2**power, sharding="full", tensor=tensor, micro_tokens=1, longest=1)
    many = few.model_copy(update={"num_devices": few.num_devices * 2})
    for term in (weight_term, gradient_term, optimizer_term, reference_term):
        # twice the copies, half of each shard
        assert term(shape, many).mid == pytest.approx(term(shape, few).mid / 2)
