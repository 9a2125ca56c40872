"""Keyed noise: uniform, independent of the batch; draws follow the probabilities."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from steptune.engine.sampling import draw, noise_keys, uniforms


def many_uniforms(num: int) -> torch.Tensor:
    keys = noise_keys(3, torch.arange(num), torch.zeros(num, dtype=torch.int64))
    return uniforms(keys, torch.arange(num) % 40)


def test_uniforms_fill_the_unit_interval_evenly() -> None:
    u = many_uniforms(100_000)
    assert 0 < float(u.min()) < 1e-3
    assert 1 - 1e-3 < float(u.max()) < 1
    # 20 cells of 5,000, standard deviation 69
    counts = torch.histc(u, 20, 0, 1)
    assert float(counts.min()) > 4600
    assert float(counts.max()) < 5400


@pytest.mark.parametrize("axis", ["problem", "sample", "position", "seed"])
def test_neighbours_along_every_part_of_the_key_are_uncorrelated(axis: str) -> None:
    base = torch.arange(20_000)
    one, zero = torch.ones(1, dtype=torch.int64), torch.zeros(1, dtype=torch.int64)
    a = uniforms(noise_keys(7, base, zero), zero)
    b = {
        "problem": lambda: uniforms(noise_keys(7, base + 1, zero), zero),
        "sample": lambda: uniforms(noise_keys(7, base, one), zero),
        "position": lambda: uniforms(noise_keys(7, base, zero), one),
        "seed": lambda: uniforms(noise_keys(8, base, zero), zero),
    }[axis]()
    # standard error of a correlation over 20,000 pairs: 0.007
    assert abs(float(torch.corrcoef(torch.stack((a, b)))[0, 1])) < 0.03


def test_a_uniform_does_not_depend_on_the_rows_around_it() -> None:
    problem, sample, position = torch.arange(50) // 5, torch.arange(50) % 5, torch.arange(50)
    whole = uniforms(noise_keys(1, problem, sample), position)
    order = torch.arange(50).flip(0)[::2]
    part = uniforms(noise_keys(1, problem[order], sample[order]), position[order])
    assert torch.equal(whole[order], part)


def test_the_hash_is_splitmix64() -> None:
    # Python integers as the reference: key 0, position 0 is the first output of SplitMix64(0),
    # 0xE220A8397B1DCDAF, of which the top 22 bits count.
    expected = ((0xE220A8397B1DCDAF >> 42) + 0.5) / 2**22
    assert float(uniforms(torch.zeros(1, dtype=torch.int64), torch.zeros(1, dtype=torch.int64))) == expected


def test_draws_follow_the_probabilities() -> None:
    probs = torch.tensor([0.5, 0.0, 0.3, 0.2]).expand(100_000, 4)
    freq = torch.bincount(draw(probs, many_uniforms(100_000)), minlength=4) / 100_000
    assert torch.allclose(freq, probs[0], atol=0.006)
    assert freq[1] == 0


def test_rows_that_do_not_add_up_to_one_are_drawn_in_proportion() -> None:
    probs = torch.tensor([0.25, 0.0, 0.25]).expand(50_000, 3)
    freq = torch.bincount(draw(probs, many_uniforms(50_000)), minlength=3) / 50_000
    assert torch.allclose(freq, torch.tensor([0.5, 0.0, 0.5]), atol=0.01)


@given(st.floats(1e-30, 1.0), st.integers(0, 2**22 - 1))
def test_a_zero_probability_is_never_drawn(scale: float, cell: int) -> None:
    probs = torch.tensor([[0.0, 1.0, 0.0, 0.7, 0.0]]) * scale
    uniform = torch.tensor([(cell + 0.5) / 2**22])
    assert int(draw(probs, uniform)) in (1, 3)


@given(st.integers(1, 1100), st.integers(0, 10_000))
def test_drawing_in_blocks_is_drawing_from_the_whole_cdf(vocab_size: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    weights = torch.rand(3, vocab_size, generator=generator) ** 4
    weights[weights < 0.1] = 0
    weights[:, -1] += 0.01
    uniform = torch.rand(3, generator=generator) * 0.999 + 0.0005
    token = draw(weights, uniform)
    cdf = weights.double().cumsum(-1)
    below, above = cdf.gather(1, token[:, None]) - weights.gather(1, token[:, None]), cdf.gather(1, token[:, None])
    target, slack = uniform[:, None] * cdf[:, -1:], 1e-5 * cdf[:, -1:]
    assert (weights.gather(1, token[:, None]) > 0).all()
    assert (below <= target + slack).all()
    assert (target <= above + slack).all()


def test_the_first_and_last_uniform_draw_tokens_that_exist() -> None:
    uniform = torch.tensor([0.5, 2**22 - 0.5]) / 2**22
    for vocab_size in (1, 255, 256, 257, 5_000):
        weights = torch.full((2, vocab_size), 1e-3)
        assert draw(weights, uniform).tolist() == [0, vocab_size - 1]


def test_nan_draws_some_token_and_leaves_the_refusal_to_the_log_probs() -> None:
    assert 0 <= int(draw(torch.full((1, 700), torch.nan), torch.tensor([0.5]))) < 700
