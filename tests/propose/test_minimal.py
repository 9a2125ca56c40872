from hypothesis import given
from hypothesis import strategies as st
from propose_cases import change, ranked

from steptune.core.knob import EFFECT_ORDER, Effect
from steptune.propose.minimal import minimal_change

NOISE = 0.02


def test_moves_inside_the_noise_are_dropped() -> None:
    options = [
        ranked(0.500, change(a=1, b=1, c=1)),
        ranked(0.505, change(a=1, b=1)),
        ranked(0.600, change(a=1)),
        ranked(0.505, change(a=1, d=1)),
        ranked(0.400, change(d=1)),
    ]
    assert minimal_change(0, options, NOISE) == 1


def test_moves_that_only_go_together_are_dropped_together() -> None:
    # a schedule without its thread split cannot run, so it is not among the candidates
    options = [
        ranked(0.500, change(Effect.STALENESS, schedule="one_step_off", threads=1, layout="packed")),
        ranked(0.900, change(threads=1, layout="packed")),
        ranked(0.505, change(layout="packed")),
    ]
    assert minimal_change(0, options, NOISE) == 2


def test_the_lighter_proof_goes_before_the_fewer_moves() -> None:
    options = [
        ranked(0.500, change(Effect.PRECISION, a=1, b=1, dtype="bf16")),
        ranked(0.500, change(Effect.PRECISION, dtype="bf16")),
        ranked(0.505, change(a=1, b=1)),
    ]
    assert minimal_change(0, options, NOISE) == 2


def test_the_same_knob_at_another_value_is_not_a_part_of_the_winner() -> None:
    options = [ranked(0.5, change(a=1, b=1)), ranked(0.5, change(a=True)), ranked(0.5, change(a=2))]
    assert minimal_change(0, options, NOISE) == 0


def test_small_losses_do_not_add_up() -> None:
    # each move alone is worth 1.5 %, within the noise; both are not
    options = [ranked(0.5, change(a=1, b=1, c=1)), ranked(0.5075, change(a=1, b=1)), ranked(0.515, change(a=1))]
    assert minimal_change(0, options, NOISE) == 1


@given(st.lists(st.tuples(st.sets(st.sampled_from("abcd"), min_size=1), st.floats(0.2, 1)), min_size=1, max_size=15))
def test_the_result_is_a_cheaper_part_of_the_winner_and_as_fast(options: list) -> None:
    effects = {"a": Effect.NONE, "b": Effect.NONE, "c": Effect.PRECISION, "d": Effect.STALENESS}
    made = [
        ranked(mid, change(max((effects[k] for k in knobs), key=EFFECT_ORDER.index), **dict.fromkeys(knobs, 1)))
        for knobs, mid in options
    ]
    slim, full = made[minimal_change(0, made, NOISE)], made[0]
    assert {m.knob for m in slim.change.moves} <= {m.knob for m in full.change.moves}
    assert slim.mid <= full.mid * (1 + NOISE)
    assert EFFECT_ORDER.index(slim.change.effect) <= EFFECT_ORDER.index(full.change.effect)
