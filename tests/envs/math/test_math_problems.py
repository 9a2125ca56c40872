"""The problem stream: determinism, disjoint sides, sound workings."""

import re
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steptune.core.errors import JobError
from steptune.envs.math import problems
from steptune.envs.math.draws import Draws
from steptune.envs.math.expressions import MAX_TERMS, MIN_TERMS, product_of, sum_of
from steptune.envs.math.problems import MAKERS, Problem, Side, side_of, train_problem, validation_problems
from steptune.envs.math.stories import sum_story
from steptune.envs.math.tokenizer import MathTokenizer

ALL_LEVELS = tuple(MAKERS)
MAX_DEMONSTRATION_TOKENS = 38


def test_a_problem_depends_on_seed_index_and_levels_alone() -> None:
    again = [train_problem(1, i, ALL_LEVELS) for i in reversed(range(20))][::-1]
    assert [train_problem(1, i, ALL_LEVELS) for i in range(20)] == again
    assert train_problem(1, 3, ALL_LEVELS) != train_problem(2, 3, ALL_LEVELS)


def test_the_stream_is_pinned() -> None:
    # Changing these texts changes every cached SFT start and every recorded run.
    assert [train_problem(1, i, (1, 2, 3)).text for i in range(3)] == [
        "8-1+9+1?",
        "5+3?",
        "29+7?",
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
def test_no_expression_is_on_both_sides(level: int) -> None:
    def expressions(texts: Iterable[Problem]) -> set[str]:
        # 7*8=56-5#51 names its operands whatever the story is called: 7, 8, -5
        return {re.sub(r"=\d+|#-?\d+", " ", problem.demonstration) for problem in texts}

    train = expressions(train_problem(1, i, (level,)) for i in range(3000))
    assert not train & expressions(validation_problems(500, 1, (level,)))


def test_expressions_that_commute_are_one() -> None:
    assert sum_of([3, 8, -5]).key == sum_of([8, -5, 3]).key
    assert sum_of([3, -8]).key != sum_of([8, -3]).key
    assert product_of(7, 24, 5).key == product_of(24, 7, 5).key
    assert product_of(7, 24, 5).key != product_of(7, 24, -5).key


def test_a_story_is_on_the_side_of_its_expression() -> None:
    draws = Draws(1)
    for _ in range(50):
        expression, text = sum_story(draws)
        start, first, second = (int(term) for term in re.findall(r"[+-]?\d+", expression.text))
        assert expression.key == sum_of([start, first, second]).key
        assert [abs(first), abs(second)] == [int(n) for n in re.findall(r"\d+", text)][1:]


def test_about_one_expression_in_five_is_held_out() -> None:
    sides = [side_of(sum_of([a, b]).key) for a in range(1, 60) for b in range(a, 60)]
    assert 0.17 < sides.count(Side.VALIDATION) / len(sides) < 0.23


def test_an_expression_is_worked_one_operation_at_a_time() -> None:
    # 3 + 8 = 11, 11 - 5 = 6, 6 + 9 = 15
    assert sum_of([3, 8, -5, 9]).working == "3+8=11-5=6+9"
    assert sum_of([3, 8, -5, 9]).text == "3+8-5+9"
    assert sum_of([3, 8]).working == "3+8"
    # 7 * 8 = 56, 56 - 5 = 51
    assert product_of(7, 8, -5).working == "7*8=56-5"
    assert product_of(7, 8, -5).answer == 51


@pytest.mark.parametrize("level", ALL_LEVELS)
def test_every_step_of_a_working_is_true_and_none_is_negative(level: int) -> None:
    for i in range(300):
        # 3+8=11-5#6 holds 3+8=11 and 11-5#6
        steps = re.findall(r"(?=(?<!\d)(\d+)([-+*])(\d+)[=#](\d+))", train_problem(1, i, (level,)).demonstration)
        assert steps
        for left, operation, right, outcome in steps:
            a, b = int(left), int(right)
            assert {"+": a + b, "-": a - b, "*": a * b}[operation] == int(outcome) >= 0


@pytest.mark.parametrize("level", ALL_LEVELS)
def test_lengths_vary_up_to_the_token_limit(level: int) -> None:
    tokenizer = MathTokenizer()
    lengths = [len(tokenizer.encode_completion(train_problem(1, i, (level,)).demonstration)) for i in range(1000)]
    assert max(lengths) <= MAX_DEMONSTRATION_TOKENS
    assert len(set(lengths)) > 2


def test_the_longer_the_rarer() -> None:
    texts = [train_problem(1, i, (2,)).text for i in range(2000)]
    num_terms = [1 + text.count("+") + text.count("-") for text in texts]
    counts = [num_terms.count(n) for n in range(MIN_TERMS, MAX_TERMS + 1)]
    # half as many each time: 1000, 500, 250, 125, 62 and 62 expected
    assert counts[0] > 1.5 * counts[1] > 2 * counts[2] > 2.5 * counts[3]
    assert counts[-1] > 30


def test_an_unknown_level_is_refused_with_a_hint() -> None:
    with pytest.raises(JobError, match=r"got \[1, 9\].*hint"):
        train_problem(1, 0, (1, 9))
    with pytest.raises(JobError, match="levels"):
        validation_problems(1, 1, ())


def test_an_exhausted_level_is_refused_with_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(problems, "MAX_DRAWS", 50)
    with pytest.raises(JobError, match="too few distinct problems at level 1"):
        validation_problems(40_000, 1, (1,))


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
