"""Exact round trips, and decoding that never fails."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steptune.core.errors import ReadError
from steptune.envs.math.problems import MAKERS, train_problem
from steptune.envs.math.tokenizer import UNKNOWN, MathTokenizer

TOKENIZER = MathTokenizer()


@pytest.mark.parametrize("level", tuple(MAKERS))
def test_every_problem_survives_the_round_trip(level: int) -> None:
    for i in range(300):
        problem = train_problem(3, i, (level,))
        assert TOKENIZER.decode(TOKENIZER.encode_prompt(problem.text)) == problem.text
        assert TOKENIZER.decode(TOKENIZER.encode_completion(problem.demonstration)) == problem.demonstration


@given(st.text(alphabet="0123456789+-*=?#", max_size=40))
def test_any_arithmetic_text_survives_the_round_trip(text: str) -> None:
    assert TOKENIZER.decode(TOKENIZER.encode(text)) == text


@given(st.lists(st.integers(-5, 500), max_size=30))
def test_decoding_never_fails(ids: list[int]) -> None:
    text = TOKENIZER.decode(ids)
    assert text.count(UNKNOWN) == sum(not 0 <= i < TOKENIZER.vocab_size for i in ids)


def test_specials_frame_the_text_and_read_as_nothing() -> None:
    assert TOKENIZER.encode_prompt("1+2?")[0] == TOKENIZER.bos_id
    assert TOKENIZER.encode_completion("#3")[-1] == TOKENIZER.eos_id
    assert TOKENIZER.decode([TOKENIZER.pad_id, TOKENIZER.bos_id, TOKENIZER.eos_id]) == ""


def test_a_phrase_is_one_token() -> None:
    # Tom, has, 1, 2, apples
    assert len(TOKENIZER.encode("Tom has 12 apples")) == 5


def test_the_vocabulary_is_small() -> None:
    assert TOKENIZER.vocab_size < 128


def test_foreign_text_is_refused_by_position() -> None:
    with pytest.raises(ReadError, match="character 2, got 'x'"):
        TOKENIZER.encode("12x")
