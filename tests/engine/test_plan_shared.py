"""The shared-prefix layout as exact counts."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steptune.core.errors import JobError, TrialError
from steptune.core.job import AlgorithmSpec
from steptune.core.model import DenseModel, HybridModel, MoEModel
from steptune.engine.knob_checks import check_knobs
from steptune.engine.knobs import EngineKnobs
from steptune.engine.micro_batch import MicroBatch, Run
from steptune.engine.plan import TrainPlan, plan_batch

GROUPS = st.lists(st.tuples(st.integers(1, 12), st.lists(st.integers(1, 20), min_size=3, max_size=3)), min_size=1)


def shared_plan(groups: list[tuple[int, list[int]]], budget: int, num_updates: int = 1) -> TrainPlan:
    return plan_batch(
        [prompt for prompt, completions in groups for _ in completions],
        [length for _, completions in groups for length in completions],
        layout="shared_prefix",
        token_budget=budget,
        max_completion_len=20,
        num_updates=num_updates,
        group_size=len(groups[0][1]),
    )


def test_a_group_takes_its_prompt_once() -> None:
    # 128 + 8 * 32 = 384 positions instead of 8 * (128 + 32) = 1280; attention still reads every prompt 8 times
    plan = shared_plan([(128, [32] * 8)], budget=10_000)
    (micro,) = plan.micro_batches
    assert micro.runs == (Run(128, 1), Run(32, 8, prefix=128))
    assert (micro.prompts, micro.rows, micro.prompt_of) == ((0,), tuple(range(8)), (0,) * 8)
    assert (plan.padded_tokens, plan.active_tokens, micro.num_keys) == (384, 384, 128 + 8 * 160)


def test_equal_lengths_of_different_groups_share_a_run() -> None:
    plan = shared_plan([(4, [6, 2, 6]), (4, [2, 6, 5]), (9, [2, 2, 3])], budget=1000)
    (micro,) = plan.micro_batches
    assert micro.runs == (Run(9, 1), Run(4, 2), Run(3, 1, 9), Run(2, 2, 9), Run(6, 3, 4), Run(5, 1, 4), Run(2, 2, 4))
    assert (micro.prompts, micro.rows) == ((8, 0, 4), (8, 6, 7, 0, 2, 4, 5, 1, 3))
    assert [micro.prompts[number] // 3 for number in micro.prompt_of] == [row // 3 for row in micro.rows]


def test_whole_groups_stay_together_where_they_fit() -> None:
    # groups of 22, 19 and 15 positions: 22 + 15 and 19 + 15 are above 30, so each stands alone
    plan = shared_plan([(4, [6, 6, 6]), (4, [5, 5, 5]), (6, [3, 3, 3])], budget=30)
    assert [sorted(micro.rows) for micro in plan.micro_batches] == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    assert plan.num_shared_prompts == 3


def test_a_group_above_the_budget_is_split_and_its_repeated_prompt_counted() -> None:
    # 10 + 6 + 6 = 22 fits in 25, the third completion does not: 10 more positions for the prompt again
    plan = shared_plan([(10, [6, 6, 6])], budget=25)
    assert [micro.rows for micro in plan.micro_batches] == [(0, 1), (2,)]
    assert plan.num_shared_prompts == 2
    assert plan.padded_tokens == 2 * 10 + 3 * 6


@given(groups=GROUPS, budget=st.integers(1, 200), num_updates=st.integers(1, 4))
def test_every_row_is_trained_once_after_its_own_groups_prompt(
    groups: list[tuple[int, list[int]]], budget: int, num_updates: int
) -> None:
    plan = shared_plan(groups, budget, num_updates)
    assert sorted(row for micro in plan.micro_batches for row in micro.rows) == list(range(3 * len(groups)))
    for micro in plan.micro_batches:
        assert_is_whole(micro, groups)
        assert micro.num_positions <= budget or len(micro.rows) == 1
    total = sum(prompt + sum(completions) for prompt, completions in groups)
    assert plan.padded_tokens >= total
    if all(prompt + sum(completions) <= budget for prompt, completions in groups):
        assert plan.padded_tokens == total
        assert plan.num_shared_prompts == len(groups)


def assert_is_whole(micro: MicroBatch, groups: list[tuple[int, list[int]]]) -> None:
    shapes = [(run.width, run.prefix) for run in micro.runs for _ in range(run.num_rows)]
    prompts, rows = shapes[: len(micro.prompts)], shapes[len(micro.prompts) :]
    assert prompts == [(groups[row // 3][0], 0) for row in micro.prompts]
    assert rows == [(groups[row // 3][1][row % 3], groups[row // 3][0]) for row in micro.rows]
    assert [micro.prompts[number] // 3 for number in micro.prompt_of] == [row // 3 for row in micro.rows]
    assert set(micro.prompt_of) == set(range(len(micro.prompts)))


def test_rows_in_any_order_find_their_group_by_its_number() -> None:
    plan = plan_batch(
        [4, 9, 4, 9],
        [1, 2, 3, 4],
        layout="shared_prefix",
        token_budget=100,
        max_completion_len=4,
        group_size=2,
        group_B=[7, 3, 7, 3],
    )
    (micro,) = plan.micro_batches
    assert Counter(prompt % 2 for prompt in micro.prompts) == {0: 1, 1: 1}
    assert plan.padded_tokens == 4 + 9 + 1 + 2 + 3 + 4


@pytest.mark.parametrize("layout", ["padded", "sorted", "packed", "shared_prefix"])
@pytest.mark.parametrize(
    ("prompts", "completions", "what"), [([3, 3], [2, 0], "completion"), ([3, 0], [2, 1], "prompt")]
)
def test_an_empty_prompt_or_completion_is_refused(
    layout: str, prompts: list[int], completions: list[int], what: str
) -> None:
    with pytest.raises(TrialError, match=f"row 1 .* empty {what}, got 0 tokens"):
        plan_batch(prompts, completions, layout=layout, token_budget=9, max_completion_len=4)  # type: ignore[arg-type]


def test_only_attention_only_models_share_prompts() -> None:
    knobs = EngineKnobs(layout="shared_prefix")
    for model in (DenseModel(), MoEModel()):
        check_knobs(knobs, AlgorithmSpec(), model)
    with pytest.raises(JobError, match="state cannot fork in the middle of a sequence"):
        check_knobs(knobs, AlgorithmSpec(), HybridModel())
