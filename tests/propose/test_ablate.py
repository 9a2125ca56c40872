from propose_cases import change

from steptune.core.change import Change
from steptune.propose.ablate import next_ablation

A, B, AB, C = change(a=1), change(b=1), change(a=1, b=1), change(c=1)
SHARES = {"a": 0.2, "b": 0.5}


def pick(changes: list[Change], tried: set[str], incumbent: Change | None = None) -> Change | None:
    index = next_ablation(
        changes,
        lambda i: changes[i].signature not in tried,
        incumbent or change(),
        lambda knob: SHARES.get(knob, 0.0),
    )
    return None if index is None else changes[index]


def test_the_lever_of_the_largest_bottleneck_comes_first_and_combinations_do_not() -> None:
    assert pick([C, A, AB, B], set()) == B


def test_the_next_lever_goes_on_top_of_the_incumbent() -> None:
    assert pick([A, B, AB, C], {B.signature}, incumbent=B) == AB
    # a was tried alone and failed, but nothing was adopted: it does not come again
    assert pick([A, B, AB, C], {B.signature, A.signature}) == C


def test_levers_that_only_run_together_are_one_lever() -> None:
    assert pick([A, change(b=1, c=1)], set()) == change(b=1, c=1)
    # b runs alone here, so b with c is a combination
    assert pick([B, change(b=1, c=1)], {B.signature}) is None


def test_nothing_is_left_when_every_lever_was_tried() -> None:
    assert pick([A, B], {A.signature, B.signature}) is None
    assert pick([], set()) is None


def test_a_true_switch_and_the_number_one_are_different_moves() -> None:
    assert pick([change(a=1, b=1)], set(), incumbent=change(a=True)) is None
