import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steptune.core.change import Change, Move
from steptune.core.knob import EFFECT_ORDER, Effect, KnobValue, Restart, heaviest

VALUES: st.SearchStrategy[KnobValue] = st.one_of(
    st.none(), st.booleans(), st.integers(-4, 4), st.sampled_from(["packed", "sorted", "off"])
)
MOVED = st.dictionaries(st.sampled_from("abcdef"), VALUES, max_size=4)


def change(moved: dict[str, KnobValue], old: KnobValue = "old", why: tuple[str, ...] = ()) -> Change:
    moves = tuple(Move(knob=knob, old=old, new=new) for knob, new in moved.items())
    return Change(moves=moves, effect=Effect.NONE, restart=Restart.HOT, why=why)


@given(MOVED, st.randoms(use_true_random=False))
def test_the_signature_is_of_what_is_moved_to_in_any_order(moved: dict[str, KnobValue], rng: object) -> None:
    items = list(moved.items())
    rng.shuffle(items)  # type: ignore[attr-defined]
    assert change(dict(items), old=0, why=("padding_waste",)).signature == change(moved).signature


@given(MOVED, MOVED)
def test_two_configurations_have_one_signature_only_if_they_are_one(
    a: dict[str, KnobValue], b: dict[str, KnobValue]
) -> None:
    # True and 1 are equal in Python, but not the same setting
    is_same = a.keys() == b.keys() and all(repr(a[k]) == repr(b[k]) for k in a)
    assert (change(a).signature == change(b).signature) == is_same


@given(MOVED)
def test_a_change_sets_its_moves_and_leaves_the_rest(moved: dict[str, KnobValue]) -> None:
    baseline: dict[str, KnobValue] = {"a": "old", "z": 7}
    settings = change(moved).applied_to(baseline)
    assert settings == {**baseline, **moved}
    assert baseline == {"a": "old", "z": 7}


def test_a_signature_is_short_and_stands_for_ever() -> None:
    # run folders on disk are named by it
    assert change({}).signature == "44136fa355"
    assert change({"layout": "packed"}).signature == "f30fb93631"


def test_a_change_reads_as_its_moves() -> None:
    assert str(change({})) == "no change"
    assert str(change({"layout": "packed", "recompute": False}, old=None)) == (
        "layout: None -> packed, recompute: None -> False"
    )


@given(st.lists(st.sampled_from(list(Effect))))
def test_a_combination_owes_the_proof_of_its_heaviest_member(effects: list[Effect]) -> None:
    found = heaviest(tuple(effects))
    assert all(EFFECT_ORDER.index(effect) <= EFFECT_ORDER.index(found) for effect in effects)
    assert found in effects or (not effects and found is Effect.NONE)


def test_every_effect_has_a_place_in_the_order_of_burdens() -> None:
    assert set(EFFECT_ORDER) == set(Effect)
    for lighter, heavier in itertools.pairwise(EFFECT_ORDER):
        assert heaviest((heavier, lighter)) is heavier


def test_an_unknown_value_type_is_no_setting() -> None:
    with pytest.raises(ValueError, match="new"):
        Move.model_validate({"knob": "a", "old": 1, "new": [1]})
