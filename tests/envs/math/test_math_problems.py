"""The problem stream: determinism, disjoint sides, sound workings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steptune.core.errors import JobError
from steptune.envs.math import problems
from steptune.envs.math.draws import Draws
from steptune.envs.math.expressions import MAX_TERMS, product_of, sum_key, sum_of
from steptune.envs.math.problems import MAKERS, Side, side_of, train_problem, validation_problems
from steptune.envs.math.tokenizer import MathTokenizer

ALL_LEVELS = tuple(MAKERS)
MAX_DEMONSTRATION_TOKENS = 36


def test_a_problem_depends_on_seed_index_and_levels_alone() -> None:
    again = [train_problem(1, i, ALL_LEVELS) for i in reversed(range(20))][::-1]
    assert [train_problem(1, i, ALL_LEVELS) for i in range(20)] == again
    assert train_problem(1, 3, ALL_LEVELS) != train_problem(2, 3, ALL_LEVELS)


def test_the_stream_is_pinned() -> None:
    # Changing these texts changes every cached SFT start and every recorded run.
    assert [train_problem(1, i, (1, 2, 3)).text for i in range(3)] == [
        "6+17+8-3=",
        "26+90=",
        "41+77=",
    ]


def test_levels_are_drawn_evenly() -> None:
    drawn = [train_problem(1, i, (1, 2, 3)).level for i in range(900)]
    # 300 expected each, standard deviation about 14
    assert all(240 < drawn.count(level) < 360 for level in (1, 2, 3))


def test_validation_problems_are_distinct_and_take_turns_over_levels() -> None:
    found = validation_problems(2000, 1, (1, 2, 3))
    assert len({problem.text for problem in found}) == 2000
    assert [problem.level for problem in found[:6]] == [1, 2, 3, 1, 2, 3]


@pytest.mark.parametrize("level", ALL_LEVELS)
def test_no_text_is_on_both_sides(level: int) -> None:
    train = {train_problem(1, i, (level,)).text for i in range(3000)}
    held_out = {problem.text for problem in validation_problems(500, 1, (level,))}
    assert not train & held_out


def test_expressions_that_commute_share_a_side() -> None:
    assert sum_key([3, 8, -5]) == sum_key([8, -5, 3])
    assert sum_key([3, -8]) != sum_key([8, -3])
    assert product_of(7, 24, 5).key == product_of(24, 7, 5).key


def test_about_one_expression_in_five_is_held_out() -> None:
    sides = [side_of(sum_key([a, b])) for a in range(1, 60) for b in range(a, 60)]
    assert 0.17 < sides.count(Side.VALIDATION) / len(sides) < 0.23


def test_running_totals_are_worked_step_by_step() -> None:
    assert sum_of([3, 8, 5, 9]).working == "11,16,25"
    assert sum_of([3, 8, 5, 9]).text == "3+8+5+9"
    assert sum_of([3, -8]).working == ""


def test_products_are_worked_through_tens_and_units() -> None:
    # 7 * 24 = 7 * 20 + 7 * 4 = 140 + 28 = 168, and 5 more
    assert product_of(7, 24, 5).working == "140+28,168,173"


@pytest.mark.parametrize("level", ALL_LEVELS)
def test_lengths_vary_up_to_the_token_limit(level: int) -> None:
    tokenizer = MathTokenizer()
    lengths = [len(tokenizer.encode_completion(train_problem(1, i, (level,)).demonstration)) for i in range(1000)]
    assert max(lengths) <= MAX_DEMONSTRATION_TOKENS
    assert len(set(lengths)) > 2


def test_difficulty_and_mean_length_rise_with_the_level() -> None:
    tokenizer = MathTokenizer()

    def mean_length(level: int) -> float:
        texts = [train_problem(1, i, (level,)).demonstration for i in range(300)]
        return sum(len(tokenizer.encode(text)) for text in texts) / 300

    means = [mean_length(level) for level in ALL_LEVELS]
    assert means == sorted(means)
    # a long tail: one problem in 32 of level 2 has the most terms
    signs = [train_problem(1, i, (2,)).text.count("+") + train_problem(1, i, (2,)).text.count("-") for i in range(600)]
    assert signs.count(2) > 4 * signs.count(MAX_TERMS - 1) > 0


def test_an_unknown_level_is_refused_with_a_hint() -> None:
    with pytest.raises(JobError, match=r"got \[1, 9\].*hint"):
        train_problem(1, 0, (1, 9))
    with pytest.raises(JobError, match="levels"):
        validation_problems(1, 1, ())


def test_an_exhausted_level_is_refused_with_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(problems, "MAX_DRAWS", 200)
    with pytest.raises(JobError, match="too few distinct problems at level 1"):
        validation_problems(4000, 1, (1,))


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=3), st.integers(1, 10**6))
def test_draws_stay_in_range_and_repeat(key: list[int], bound: int) -> None:
    first = [Draws(*key).below(bound) for _ in range(2)]
    assert first[0] == first[1]
    assert 0 <= first[0] < bound


def test_draws_are_even() -> None:
    draws = Draws(5)
    counts = [0] * 10
    for _ in range(10_000):
        counts[draws.below(10)] += 1
    # 1,000 each, standard deviation 30
    assert all(870 < count < 1130 for count in counts)
