"""Formulas know, do not know, and never guess."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steptune.lint.formula import Scalar, evaluate, holds, names_in, number


@dataclass
class Values:
    known: dict[str, Scalar] = field(default_factory=dict)
    unreadable: tuple[str, ...] = ()

    def value(self, name: str) -> Scalar:
        return self.known.get(name)

    def is_set(self, name: str) -> bool:
        return name in self.known or name in self.unreadable


def test_arithmetic_follows_python() -> None:
    assert evaluate("batch * n % (gpus // tp)", Values({"batch": 30, "n": 5, "gpus": 8, "tp": 2})) == 2


def test_unknown_and_false_is_false_but_unknown_and_true_is_unknown() -> None:
    values = Values({"on": True, "off": False})
    assert evaluate("off and missing", values) is False
    assert evaluate("on and missing", values) is None
    assert evaluate("on or missing", values) is True


def test_division_by_zero_is_unknown() -> None:
    assert evaluate("4 // zero", Values({"zero": 0})) is None


def test_not_reads_not_known_to_be() -> None:
    assert holds("not off", Values())
    assert holds("not off", Values({"off": False}))
    assert not holds("not off", Values({"off": True}))
    assert not holds("not off", Values(unreadable=("off",)))


def test_first_skips_what_is_not_set_and_stops_at_what_cannot_be_read() -> None:
    assert evaluate("first(dp, 1)", Values()) == 1
    assert evaluate("first(dp, 1)", Values({"dp": 4})) == 4
    assert evaluate("first(dp, 1)", Values(unreadable=("dp",))) is None


def test_choose_needs_a_known_condition() -> None:
    assert evaluate("choose(colocated, 8, 4)", Values({"colocated": False})) == 4
    assert evaluate("choose(colocated, 8, 4)", Values()) is None


def test_words_are_compared_without_case() -> None:
    assert holds("name == 'vllm'", Values({"name": "vLLM"}))
    assert not holds("name == 'vllm'", Values({"name": True}))


def test_a_truth_value_is_no_number() -> None:
    assert number("flag", Values({"flag": True})) is None
    assert evaluate("flag == 1", Values({"flag": True})) is None or not holds("flag == 1", Values({"flag": True}))


def test_names_leave_function_names_out() -> None:
    assert list(names_in("first(tp, 1) * max(pp, tp)")) == ["tp", "pp"]


def test_anything_beyond_arithmetic_is_refused() -> None:
    with pytest.raises(ValueError, match="may not"):
        evaluate("__import__('os').system('true')", Values())


@given(st.integers(-(10**9), 10**9), st.integers(-(10**9), 10**9))
def test_comparisons_agree_with_python(a: int, b: int) -> None:
    values = Values({"a": a, "b": b})
    assert holds("a <= b", values) is (a <= b)
    assert holds("a == b", values) is (a == b)
    assert holds("a % 7 != 0", values) is (a % 7 != 0)
