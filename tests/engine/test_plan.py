import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steptune.engine.plan import Layout, Run, plan_batch, update_ranges

LAYOUTS: tuple[Layout, ...] = ("padded", "sorted", "packed")
ROWS = st.lists(st.tuples(st.integers(1, 12), st.integers(1, 20)), min_size=1, max_size=40)


@given(rows=ROWS, budget=st.integers(1, 200), num_updates=st.integers(1, 4), layout=st.sampled_from(LAYOUTS))
def test_every_row_is_trained_once_within_the_budget(
    rows: list[tuple[int, int]], budget: int, num_updates: int, layout: Layout
) -> None:
    prompts, completions = [p for p, _ in rows], [c for _, c in rows]
    plan = plan_batch(
        prompts, completions, layout=layout, token_budget=budget, max_completion_len=20, num_updates=num_updates
    )
    assert sorted(row for micro in plan.micro_batches for row in micro.rows) == list(range(len(rows)))
    assert plan.active_tokens == sum(prompts) + sum(completions)
    assert plan.padded_tokens >= plan.active_tokens
    for micro in plan.micro_batches:
        widths = [run.width for run in micro.runs for _ in range(run.num_rows)]
        assert micro.num_positions <= budget or len(micro.rows) == 1
        assert all(prompts[r] + completions[r] <= w for r, w in zip(micro.rows, widths, strict=True))
        if layout == "packed":
            assert widths == [prompts[r] + completions[r] for r in micro.rows]


@given(rows=ROWS, budget=st.integers(1, 200))
def test_packing_has_no_padding_and_sorting_never_more_than_the_batch_width(
    rows: list[tuple[int, int]], budget: int
) -> None:
    padded, by_length, packed = (
        plan_batch(
            [p for p, _ in rows], [c for _, c in rows], layout=layout, token_budget=budget, max_completion_len=20
        )
        for layout in LAYOUTS
    )
    assert packed.padded_tokens == packed.active_tokens <= by_length.padded_tokens <= padded.padded_tokens


def test_the_padded_layout_reserves_for_the_longest_completion_allowed() -> None:
    # 4 + 16 = 20 positions reserved per row, so 2 rows in 45; real width 4 + 6 = 10
    plan = plan_batch([4, 4, 4], [6, 1, 2], layout="padded", token_budget=45, max_completion_len=16)
    assert [(micro.rows, micro.runs) for micro in plan.micro_batches] == [
        ((0, 1), (Run(10, 2),)),
        ((2,), (Run(10, 1),)),
    ]
    assert (plan.padded_tokens, plan.active_tokens) == (30, 21)


def test_the_sorted_layout_starts_with_the_longest_rows() -> None:
    plan = plan_batch([2] * 5, [1, 8, 3, 8, 1], layout="sorted", token_budget=20, max_completion_len=8)
    assert [micro.rows for micro in plan.micro_batches] == [(1, 3), (2, 0, 4)]  # widths 10 and 5
    assert plan.padded_tokens == 2 * 10 + 3 * 5


def test_the_packed_layout_keeps_equal_rows_in_one_run() -> None:
    plan = plan_batch([2] * 5, [1, 8, 3, 8, 1], layout="packed", token_budget=26, max_completion_len=8)
    assert [micro.rows for micro in plan.micro_batches] == [(1, 3, 2), (0, 4)]
    assert [micro.runs for micro in plan.micro_batches] == [(Run(10, 2), Run(5, 1)), (Run(3, 2),)]


def test_a_row_wider_than_the_budget_gets_its_own_micro_batch() -> None:
    for layout in LAYOUTS:
        plan = plan_batch([9, 9], [9, 9], layout=layout, token_budget=5, max_completion_len=9)
        assert [micro.num_positions for micro in plan.micro_batches] == [18, 18]


@given(num_groups=st.integers(1, 20), group_size=st.integers(1, 5), num_updates=st.integers(1, 8))
def test_optimizer_mini_batches_are_whole_groups_of_nearly_equal_number(
    num_groups: int, group_size: int, num_updates: int
) -> None:
    ranges = update_ranges(num_groups * group_size, group_size=group_size, num_updates=num_updates)
    sizes = [len(rows) // group_size for rows in ranges]
    assert [row for rows in ranges for row in rows] == list(range(num_groups * group_size))
    assert all(rows.start % group_size == 0 for rows in ranges)
    assert len(ranges) == min(num_updates, num_groups)
    assert max(sizes) - min(sizes) <= 1
    assert min(sizes) >= 1


def test_half_a_group_is_refused() -> None:
    with pytest.raises(AssertionError, match="whole groups"):
        update_ranges(7, group_size=2, num_updates=1)


def test_planning_needs_no_torch() -> None:
    code = "import sys, steptune.engine.plan; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
