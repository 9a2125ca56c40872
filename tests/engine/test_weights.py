"""Weights on their way to the rollout: whole, of one version, and exactly those published, whoever races whom."""

from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from steptune.core.errors import TrialError
from steptune.engine import weights
from steptune.engine.tensor_hash import tensor_hash
from steptune.engine.weights import FileWeights, SharedWeights, weight_channel

plain_copy = weights.copy


def state_of(version: int) -> dict[str, Tensor]:
    return {"a": torch.full((3, 5), float(version)), "b": torch.full((600,), float(version)), "c": torch.tensor(1.0)}


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        for name, tensor in state_of(0).items():
            self.register_buffer(name, tensor)


@pytest.mark.parametrize("method", ["copy", "file"])
def test_what_is_read_is_the_newest_version(tmp_path: Path, method: str) -> None:
    channel = weight_channel(method, Model(), tmp_path)
    assert channel.read().version == 0
    for version in (1, 2, 5):
        channel.write(state_of(version), version)
    read = channel.read()
    assert read.version == 5
    assert all(torch.equal(tensor, state_of(5)[name]) for name, tensor in read.state.items())


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(0, 3), max_size=12))
def test_a_writer_that_runs_between_any_two_copies_of_a_reader_never_tears_what_is_read(
    monkeypatch: pytest.MonkeyPatch, writes_before_copy: list[int]
) -> None:
    channel = SharedWeights(Model())
    channel.write(state_of(0), 0)
    pending = iter(writes_before_copy)
    version = 0

    def racing_copy(source: Tensor, target: Tensor) -> None:
        nonlocal version
        for _ in range(next(pending, 0)):
            version += 1
            monkeypatch.setattr(weights, "copy", plain_copy)
            channel.write(state_of(version), version)
            monkeypatch.setattr(weights, "copy", racing_copy)
        plain_copy(source, target)

    monkeypatch.setattr(weights, "copy", racing_copy)
    read = channel.read()
    monkeypatch.setattr(weights, "copy", plain_copy)
    for name, tensor in read.state.items():
        assert torch.equal(tensor, state_of(read.version)[name])


def test_a_reader_in_the_middle_of_a_write_gets_the_version_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    channel = SharedWeights(Model())
    channel.write(state_of(3), 3)
    seen: list[int] = []

    def copy_and_look(source: Tensor, target: Tensor) -> None:
        plain_copy(source, target)
        monkeypatch.setattr(weights, "copy", plain_copy)
        seen.append(channel.read().version)
        monkeypatch.setattr(weights, "copy", copy_and_look)

    monkeypatch.setattr(weights, "copy", copy_and_look)
    channel.write(state_of(4), 4)
    assert seen == [3, 3, 3]
    monkeypatch.setattr(weights, "copy", plain_copy)
    assert channel.read().version == 4


def test_a_single_changed_bit_is_refused_by_the_tensors_name(tmp_path: Path) -> None:
    channel = SharedWeights(Model())
    channel.write(state_of(1), 1)
    channel.slots[int(channel.marks.argmax())]["b"].view(torch.int32)[17] ^= 1
    with pytest.raises(TrialError, match=r"version 1: `b` has another hash, got 1 of 3 tensors"):
        channel.read()
    file = FileWeights(tmp_path)
    file.write(state_of(1), 1)
    held = torch.load(file.path, weights_only=True)
    held["state"]["a"][0, 0] = 2.0
    torch.save(held, file.path)
    with pytest.raises(TrialError, match="`a` has another hash"):
        file.read()


@given(st.integers(0, 1299), st.integers(0, 31))
def test_any_flipped_bit_changes_the_hash(place: int, bit: int) -> None:
    tensor = torch.arange(1300, dtype=torch.float32)
    before = tensor_hash(tensor)
    tensor.view(torch.int32)[place] ^= 1 << bit if bit < 31 else -(1 << 31)
    assert tensor_hash(tensor) != before


def test_blocks_that_changed_places_change_the_hash_and_a_copy_does_not() -> None:
    tensor = torch.randn(2048)
    swapped = torch.cat((tensor[512:1024], tensor[:512], tensor[1024:]))
    assert tensor_hash(swapped) != tensor_hash(tensor)
    assert tensor_hash(tensor.clone()) == tensor_hash(tensor)
    # a view that begins in the middle of a word, a scalar, three bytes of bf16
    assert tensor_hash(tensor[1:]) == tensor_hash(tensor[1:].clone())
    assert tensor_hash(torch.tensor(1.0)) != tensor_hash(torch.tensor(2.0))
    assert tensor_hash(torch.ones(3, dtype=torch.bfloat16)) != tensor_hash(torch.zeros(3, dtype=torch.bfloat16))
