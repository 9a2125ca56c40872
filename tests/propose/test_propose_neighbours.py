from propose_cases import BASELINE, SPECS, change, job

from steptune.core.change import Change, Move
from steptune.propose.neighbours import neighbours
from steptune.propose.space import axes

AXES = axes(job(allow=("layout", "dtype", "threads")).knobs, SPECS, BASELINE, ())
"""Three, two and two values."""


def around(moved: Change) -> set[frozenset[tuple[str, object]]]:
    made = [frozenset((m.knob, m.new) for m in moves) for moves in neighbours(moved, AXES)]
    assert len(made) == len(set(made))
    return set(made)


def test_the_baselines_neighbours_are_all_single_and_double_moves() -> None:
    # 2 + 1 + 1 single moves; 2 x 1 + 2 x 1 + 1 x 1 pairs
    assert len(around(change())) == 4 + 5


def test_a_knob_may_also_go_back_but_the_baseline_itself_is_no_change() -> None:
    layout = next(axis for axis in AXES if axis.spec.name == "layout")
    packed = Change(moves=(layout.moves[-1],), effect=change().effect, restart=change().restart)
    found = around(packed)
    assert frozenset() not in found
    assert frozenset({("layout", "sorted")}) in found
    assert frozenset({("dtype", "bf16")}) in found
    assert frozenset({("layout", "packed"), ("dtype", "bf16"), ("threads", 1)}) in found
    assert all(Move(knob="layout", old="padded", new="packed") not in moves for moves in neighbours(change(), AXES[:0]))
