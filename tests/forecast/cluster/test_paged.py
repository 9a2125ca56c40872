"""The paged-cache server: closed forms where nothing is tight, blocks counted one by one where something is."""

from dataclasses import replace

import pytest

from steptune.forecast.cluster.decode import DecodeCurve
from steptune.forecast.cluster.paged import PagedBatch, PagedCosts, PagedKnobs, paged_batch
from steptune.forecast.cluster.paged_cache import PagedCache
from steptune.forecast.cluster.work import GroupShape, RowShape
from steptune.forecast.curve import ForecastError

ROOMY = PagedKnobs(max_rows=64, num_blocks=1000, block_tokens=32, keeps_prefixes=False, max_positions=2048)
COSTS = PagedCosts(decode=DecodeCurve(rows=(1.0, 2.0), seconds=(0.011, 0.012)), per_position_s=0.001)
"""10 ms an iteration, 1 ms a row, 1 ms for each position of a prompt beyond a row's first."""


def groups(*tokens: int, prompt: int = 8, size: int = 1) -> list[GroupShape]:
    return [GroupShape(prompt=prompt, rows=(RowShape(tokens=n),) * size) for n in tokens]


def made(knobs: PagedKnobs, *tokens: int, prompt: int = 8, size: int = 1) -> PagedBatch:
    return paged_batch(knobs, COSTS, groups(*tokens, prompt=prompt, size=size))


def test_equal_rows_take_an_iteration_per_token_and_their_prompts_once() -> None:
    # 4 rows, 10 iterations of 14 ms, 4 x 7 prompt positions of 1 ms beside the rows' own
    batch = made(ROOMY, 10, 10, 10, 10)
    assert (batch.num_iterations, batch.computed, batch.num_preempted) == (10, 28, 0)
    assert batch.seconds == pytest.approx(0.140 + 0.028)


def test_a_limit_of_rows_makes_waves() -> None:
    assert made(replace(ROOMY, max_rows=2), 5, 5, 5, 5).num_iterations == 10


def test_a_prompt_beyond_the_budget_is_cut_into_iterations() -> None:
    # 100 positions in chunks of 32 are 4 iterations, the last of which makes the first token; 2 more tokens
    assert made(replace(ROOMY, max_positions=32), 3, prompt=100).num_iterations == 6


def test_siblings_find_the_whole_blocks_of_their_prompt() -> None:
    # 193 tokens are 6 whole blocks and one position: 3 of 4 rows find 192
    batch = made(replace(ROOMY, keeps_prefixes=True), 5, prompt=193, size=4)
    assert batch.found == 3 * 192
    assert batch.seconds < made(ROOMY, 5, prompt=193, size=4).seconds


def test_a_prompt_below_one_block_is_never_found() -> None:
    assert made(replace(ROOMY, keeps_prefixes=True), 5, prompt=25, size=4).found == 0


def test_a_full_cache_throws_the_newest_row_out_which_computes_again() -> None:
    # two rows grow to 2 blocks each where there are 3
    tight, rows = replace(ROOMY, num_blocks=3), (50, 50)
    batch = made(tight, *rows)
    assert batch.num_preempted == 1
    # the second row's 8 positions and the 25 tokens that it had made by then, but for one
    assert batch.computed == 7 + 7 + (8 + 25 - 1)
    assert batch.seconds > made(ROOMY, *rows).seconds


def test_a_row_that_was_thrown_out_finds_what_nobody_took() -> None:
    rows = (50, 30, 90)
    kept, lost = (made(replace(ROOMY, num_blocks=5, keeps_prefixes=k), *rows, prompt=40) for k in (True, False))
    assert kept.num_preempted == lost.num_preempted > 0
    assert kept.found > 0
    assert kept.computed == lost.computed - kept.found


def test_a_client_that_keeps_one_on_its_way_pays_every_turn() -> None:
    costs = replace(COSTS, turn_s=0.5)
    batch = paged_batch(replace(ROOMY, at_once=1), costs, groups(3, 3))
    assert batch.seconds == pytest.approx(2 * (0.5 + 3 * 0.011 + 0.007))


def test_requests_one_after_the_other_let_the_first_ones_begin_alone() -> None:
    costs = replace(COSTS, request_s=0.1)
    # the second arrives after the first has ended: no iteration is shared
    assert paged_batch(ROOMY, costs, groups(2, 2)).num_iterations == 4


def test_a_row_that_the_cache_cannot_hold_is_refused() -> None:
    with pytest.raises(ForecastError, match="does not hold the longest row"):
        made(replace(ROOMY, num_blocks=1), 40)


def test_the_content_unused_longest_is_taken_first_and_a_rows_end_before_its_beginning() -> None:
    cache = PagedCache(num_blocks=4, keeps_prefixes=True)
    old, new = cache.take(2), cache.take(2)
    for group, blocks in enumerate((old, new)):
        for place, block in enumerate(blocks):
            cache.fill(block, (group, None, place))
        cache.let_go(blocks)
    cache.take(1)
    assert len(cache.find([(0, None, 0), (0, None, 1)])) == 1  # its second block went
    assert len(cache.find([(1, None, 0), (1, None, 1)])) == 2


def test_a_slot_that_a_client_fills_stays_empty_for_one_iteration() -> None:
    # 2 at once: rows of 3 and 5; the third comes in the iteration after the fourth, and runs 5 of its own
    batch = paged_batch(replace(ROOMY, at_once=2), replace(COSTS, turn_s=0.001), groups(3, 5, 5))
    assert batch.num_iterations == 3 + 1 + 5
