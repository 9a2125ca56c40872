"""Rows go to one rank each, in about equal tokens, groups whole where they share a prompt."""

from hypothesis import given
from hypothesis import strategies as st

from steptune.engine.plan import Layout, plan_batch
from steptune.engine.rank_split import split_groups, split_rows

LAYOUTS: tuple[Layout, ...] = ("padded", "sorted", "packed", "shared_prefix")


def test_the_longest_goes_first_to_the_rank_with_least() -> None:
    # 9 | 5 -> 9 | 5+4 -> 9+1 | 9
    assert split_rows([0, 1, 2, 3], [5, 9, 4, 1], 2) == [[1, 3], [0, 2]]


def test_a_group_costs_its_prompt_once() -> None:
    # groups of prompt 10: {0, 1} costs 10+2+2, {2} 10+3, {3} 10+1
    assert split_groups(range(4), [0, 0, 1, 2], [10] * 4, [2, 2, 3, 1], 2) == [[0, 1], [2, 3]]


@given(
    lengths=st.lists(st.tuples(st.integers(1, 6), st.integers(1, 30)), min_size=1, max_size=24),
    num_updates=st.integers(1, 3),
    budget=st.integers(1, 200),
    layout=st.sampled_from(LAYOUTS),
)
def test_the_ranks_plans_together_are_every_row_once(
    lengths: list[tuple[int, int]], num_updates: int, budget: int, layout: Layout
) -> None:
    group_size = 2 if len(lengths) % 2 == 0 else 1
    prompts = [lengths[row - row % group_size][0] for row in range(len(lengths))]
    completions = [completion for _, completion in lengths]

    def plan(rank: int, num_ranks: int) -> object:
        return plan_batch(
            prompts,
            completions,
            layout=layout,
            token_budget=budget,
            max_completion_len=30,
            num_updates=num_updates,
            group_size=group_size,
            rank=rank,
            num_ranks=num_ranks,
        )

    whole, parts = plan(0, 1), [plan(rank, 2) for rank in (0, 1)]
    for number, rows in enumerate(whole.update_rows):  # type: ignore[attr-defined]
        held = [[row for m in part.updates[number] for row in m.rows] for part in parts]  # type: ignore[attr-defined]
        assert sorted(held[0] + held[1]) == list(rows)
        assert held[0], "the first rank has rows in every update"
        assert all(part.update_rows[number] == rows for part in parts)  # type: ignore[attr-defined]
        costs = [sum(prompts[row] + completions[row] for row in part) for part in held]
        if layout in ("sorted", "packed"):
            assert max(costs) - min(costs) <= max(prompts[row] + completions[row] for row in rows)
        if layout == "shared_prefix":
            assert not {row // group_size for row in held[0]} & {row // group_size for row in held[1]}
