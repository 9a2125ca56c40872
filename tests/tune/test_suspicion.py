"""What earlier failures say of a change that was not tried."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steptune.tune.suspicion import CULPRIT_ODDS, Moves, Suspicion


def moves(names: str) -> Moves:
    return frozenset((name, 1) for name in names)


def chance(tried: str, *groups: str) -> float:
    return Suspicion.of([[moves(group) for group in groups]]).pass_chance(moves(tried))


def test_of_one_group_every_move_is_as_suspect() -> None:
    assert chance("A", "ABCD") == pytest.approx(0.75)
    assert chance("AB", "ABCD") == pytest.approx(0.5)
    assert chance("XY", "ABCD") == 1.0


def test_of_nested_groups_only_the_inner_one_is_suspect() -> None:
    assert chance("AB", "ABCD", "CD") == 1.0
    assert chance("C", "ABCD", "CD") == pytest.approx(0.5)


def test_what_two_deaths_share_is_the_likeliest_cause() -> None:
    # D alone, or B and C together at 0.05 times the odds
    assert chance("D", "ABCD", "BD", "CD") == pytest.approx(CULPRIT_ODDS / (1 + CULPRIT_ODDS))
    assert chance("ABC", "ABCD", "BD", "CD") == pytest.approx(1 / (1 + CULPRIT_ODDS))


def test_groups_apart_need_a_culprit_each() -> None:
    # one of A and B, and one of C and D: four pairs, of which one spares A and C
    assert chance("AC", "AB", "CD") == pytest.approx(0.25)
    assert chance("A", "AB", "CD") == pytest.approx(0.5)


def test_more_culprits_than_usual_are_found_where_every_group_needs_its_own() -> None:
    assert chance("A", "AB", "CD", "EF", "GH") == pytest.approx(0.5)


def test_causes_are_independent() -> None:
    both = Suspicion.of([[moves("AB")], [moves("AC")]])
    assert both.pass_chance(moves("A")) == pytest.approx(0.25)
    assert both.pass_chance(moves("B")) == pytest.approx(0.5)


def test_without_failures_everything_passes() -> None:
    assert Suspicion.of([]).pass_chance(moves("A")) == 1.0
    assert Suspicion.of([[]]).pass_chance(moves("A")) == 1.0


@given(groups=st.lists(st.frozensets(st.sampled_from("ABCDEF"), min_size=1), min_size=1, max_size=4))
def test_chances_are_chances_and_more_moves_never_pass_more_often(groups: list[frozenset[str]]) -> None:
    suspicion = Suspicion.of([[moves("".join(group)) for group in groups]])
    tried = ["", "A", "AB", "ABC", "ABCD", "ABCDE", "ABCDEF"]
    chances = [suspicion.pass_chance(moves(each)) for each in tried]
    assert chances[0] == pytest.approx(1.0)
    assert chances[-1] == 0.0
    assert all(a >= b - 1e-12 for a, b in pairwise(chances))
