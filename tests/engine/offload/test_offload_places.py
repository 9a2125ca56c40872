"""Places hold bits, not numbers; a throttled one takes its time."""

import gc
import os
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from steptune.engine.offload.places import FilePlaces, MemoryPlace, Place, Pool, Throttled, new_buffer


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_a_place_keeps_every_bit_in_the_tensors_own_format(dtype: torch.dtype, tmp_path: Path) -> None:
    source = torch.tensor([[1 / 3, -0.0, torch.inf], [torch.nan, 1e-42, 65504.0]]).to(dtype)
    files = FilePlaces(tmp_path)
    for place in (MemoryPlace(source.nbytes), files.make(source.nbytes), files.make(source.nbytes)):
        target = torch.zeros_like(source)
        place.write(source)
        place.read_into(target)
        assert torch.equal(target.view(torch.uint8), source.view(torch.uint8))
    files.close()


def test_the_file_is_closed_when_its_last_place_is_forgotten(tmp_path: Path) -> None:
    place = FilePlaces(tmp_path).make(12)
    place.write(torch.ones(3))
    descriptor = place._file.descriptor
    del place
    gc.collect()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_regions_of_a_file_do_not_overlap(tmp_path: Path) -> None:
    files = FilePlaces(tmp_path)
    places = [files.make(12) for _ in range(3)]
    for number, place in enumerate(places):
        place.write(torch.full((3,), float(number)))
    target = torch.zeros(3)
    for number, place in enumerate(places):
        place.read_into(target)
        assert target.tolist() == [number] * 3
    files.close()


def test_reading_what_was_never_written_is_an_error_not_zeros(tmp_path: Path) -> None:
    files = FilePlaces(tmp_path)
    with pytest.raises(OSError, match="ends at byte 0"):
        files.make(12).read_into(torch.zeros(3))
    files.close()


def test_a_buffer_made_under_inference_mode_can_be_written_outside() -> None:
    with torch.inference_mode():
        buffer = new_buffer(4, torch.device("cpu"))
    assert not buffer.is_inference()
    buffer.fill_(1)


def test_a_throttled_place_takes_bytes_over_bandwidth_in_both_directions() -> None:
    now_s = 100.0

    def sleep(seconds: float) -> None:
        nonlocal now_s
        now_s += seconds

    place = Throttled(MemoryPlace(80), 80, bytes_per_s=16.0, clock=lambda: now_s, sleep=sleep)
    source, target = torch.arange(20.0), torch.zeros(20)
    place.write(source)
    assert now_s == 105.0
    place.read_into(target)
    assert now_s == 110.0
    assert torch.equal(target, source)


@given(st.lists(st.tuples(st.booleans(), st.sampled_from([8, 16])), max_size=40))
def test_a_pool_never_gives_one_place_twice_and_makes_no_more_than_are_held_at_once(
    actions: list[tuple[bool, int]],
) -> None:
    pool, held, most = Pool(MemoryPlace), list[tuple[int, Place]](), {8: 0, 16: 0}
    for is_take, size in actions:
        if is_take:
            place = pool.take(size)
            assert all(place is not other for _, other in held)
            held.append((size, place))
            most[size] = max(most[size], sum(s == size for s, _ in held))
        elif held:
            pool.give_back(held.pop(0)[1])
        assert pool.num_taken == len(held)
    assert pool.num_made == sum(most.values())


def test_a_disk_that_takes_less_than_it_is_given_gets_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, read = os.pwrite, os.preadv
    monkeypatch.setattr(os, "pwrite", lambda fd, view, offset: write(fd, view[:5], offset))
    monkeypatch.setattr(os, "preadv", lambda fd, views, offset: read(fd, [views[0][:7]], offset))
    source, target = torch.arange(6.0), torch.zeros(6)
    place = FilePlaces(tmp_path).make(source.nbytes)
    place.write(source)
    place.read_into(target)
    assert torch.equal(target, source)
