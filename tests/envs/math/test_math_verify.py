"""The verifier compares integers, and nothing else counts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steptune.envs.math.problems import MAKERS
from steptune.envs.math.tokenizer import MathTokenizer
from steptune.envs.math.verify import MAX_DIGITS, final_answer, reward, validate


@pytest.mark.parametrize(
    ("completion", "answer"),
    [("#7", 7), ("#007", 7), ("3+8=11+5#16", 16), ("#-29", -29), ("#-0", 0), ("#1#2", 2)],
)
def test_a_right_answer_earns_one(completion: str, answer: int) -> None:
    assert reward(completion, answer) == 1.0


@pytest.mark.parametrize(
    "completion", ["", "7", "#", "#-", "#--7", "#7?", "#7 ", "#7\n", "7#", "#+7", "#7-", "#7#", "#=7", "#٧", "#7.0"]
)
def test_anything_but_the_marked_integer_at_the_end_earns_nothing(completion: str) -> None:
    assert reward(completion, 7) == 0.0


def test_a_wrong_integer_earns_nothing() -> None:
    assert reward("#70", 7) == 0.0
    assert reward("#-7", 7) == 0.0


def test_thousands_of_digits_are_unparsable_instead_of_an_error() -> None:
    assert final_answer("#" + "0" * 5000 + "7") is None
    assert final_answer("#" + "0" * (MAX_DIGITS - 1) + "7") == 7


@given(st.integers(-(10**9), 10**9), st.integers(0, 5))
def test_leading_zeros_do_not_matter(answer: int, zeros: int) -> None:
    sign = "-" if answer < 0 else ""
    assert reward(f"#{sign}{'0' * zeros}{abs(answer)}", answer) == 1.0


@given(st.lists(st.integers(0, 60), max_size=30))
def test_any_token_sequence_can_be_graded(ids: list[int]) -> None:
    assert reward(MathTokenizer().decode(ids), 5) in (0.0, 1.0)


def test_every_demonstration_is_graded_right() -> None:
    assert validate(tuple(MAKERS)) == ()
