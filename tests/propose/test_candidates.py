import time
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from propose_cases import BASELINE, PADDING, SERIAL, SPECS, bottleneck, job, needs_a_split, no_conflicts, spec

from steptune.core.bottleneck import BottleneckKind
from steptune.core.change import Change
from steptune.core.errors import JobError
from steptune.core.job import JobSpec
from steptune.core.knob import Effect, KnobValue, Restart, Settings, heaviest
from steptune.propose.candidates import MAX_COMBINATIONS, Proposal, candidates
from steptune.propose.make import RESTART_ORDER


def moved(change: Change) -> dict[str, KnobValue]:
    return {move.knob: move.new for move in change.moves}


def proposal(of: JobSpec | None = None, conflicts: object = no_conflicts) -> Proposal:
    return candidates(of or job(), SPECS, BASELINE, (SERIAL, PADDING), conflicts)  # type: ignore[arg-type]


def test_every_combination_is_listed_once_fewest_moves_first() -> None:
    # 3 layouts x 2 dtypes x 2 schedules x 2 thread counts, without the baseline
    made = proposal()
    assert len(made.changes) == made.num_combinations == 23
    assert len({change.signature for change in made.changes}) == 23
    assert [len(c.moves) for c in made.changes] == sorted(len(c.moves) for c in made.changes)
    assert made.is_complete


def test_an_algorithm_knob_never_moves() -> None:
    assert not any("lr_scale" in moved(change) for change in proposal().changes)
    assert proposal(job(allow=("lr_scale",))).changes == ()


def test_the_owners_knobs_are_respected() -> None:
    assert {k for c in proposal(job(allow=("layout", "dtype"))).changes for k in moved(c)} == {"layout", "dtype"}
    assert {k for c in proposal(job(layout="padded")).changes for k in moved(c)} == {"dtype", "schedule", "threads"}


@pytest.mark.parametrize("wrong", [job(allow=("layuot",)), job(layuot="padded")])
def test_an_unknown_knob_fails_with_the_nearest_spelling(wrong: JobSpec) -> None:
    with pytest.raises(JobError, match="got `layuot`; hint: did you mean `layout`"):
        proposal(wrong)


def test_a_conflict_refuses_the_combination_and_is_counted() -> None:
    made = proposal(conflicts=needs_a_split)
    overlapped = [moved(c) for c in made.changes if "schedule" in moved(c)]
    assert overlapped
    assert all(settings["threads"] == 1 for settings in overlapped)
    # one_step_off on two threads: 3 layouts x 2 dtypes
    assert made.num_refused == 6
    assert [(r.reason, r.count) for r in made.refusals] == [("one_step_off needs 1 thread a side", 6)]


def test_the_most_frequent_refusal_comes_first() -> None:
    def rare_and_frequent(settings: Settings) -> tuple[str, ...]:
        rare = ("rare",) if settings["layout"] == "packed" else ()
        return (*rare, *(("frequent",) if settings["layout"] != "padded" else ()))

    assert [r.reason for r in proposal(conflicts=rare_and_frequent).refusals] == ["frequent", "rare"]


def test_a_change_says_its_proof_its_restart_and_its_reason() -> None:
    made = {tuple(sorted(moved(c))): c for c in proposal().changes}
    both = made["layout", "schedule"]
    assert (both.effect, both.restart) == (Effect.STALENESS, Restart.RELAUNCH)
    assert both.why == ("serialised_sides", "padding_waste")
    assert made["dtype",].why == ()
    assert made["threads",].restart is Restart.REALLOCATE


def test_values_equal_in_effect_are_dropped_but_true_is_not_one() -> None:
    specs = (spec("a", 1, 1, 2, 2), spec("b", 1, True))
    made = candidates(job(), specs, {"a": 1, "b": 1}, (), no_conflicts)
    assert [moved(c) for c in made.changes] == [{"b": True}, {"a": 2}, {"a": 2, "b": True}]


def big_space() -> Proposal:
    # 4^9 = 262,144 combinations; k8 treats the most, k0 nothing
    specs = tuple(spec(f"k{i}", 0, 1, 2, 3) for i in range(9))
    treats = [bottleneck(BottleneckKind.TRAINER_BOUND, i / 100, f"k{i}") for i in range(9)]
    return candidates(job(), specs, dict.fromkeys((s.name for s in specs), 0), treats, no_conflicts)


def test_a_space_too_large_is_cut_where_it_hurts_least() -> None:
    started = time.process_time()
    made = big_space()
    assert time.process_time() - started < 3
    # 6 knobs in full, and at most one of 3 x 3 moves of the rest: 4^6 x 10
    assert made.num_combinations == 4**6 * 10 - 1 <= MAX_COMBINATIONS
    assert not made.is_complete
    combined = {frozenset(moved(c)) for c in made.changes}
    assert {f"k{i}" for i in range(3, 9)} in combined
    assert {f"k{i}" for i in range(2, 9)} in combined
    assert all(frozenset(pair) not in combined for pair in combinations(["k0", "k1", "k2"], 2))


values = st.lists(st.sampled_from([None, False, True, 0, 1, "a", "b"]), min_size=1, max_size=4)


@given(
    knobs=st.lists(st.tuples(values, st.sampled_from(list(Effect)), st.sampled_from(list(Restart))), max_size=4),
    banned=st.sampled_from([None, "a", 0]),
    pinned=st.booleans(),
)
def test_no_candidate_ever_breaks_a_rule(knobs: list, banned: KnobValue, pinned: bool) -> None:
    specs = tuple(spec(f"k{i}", *vs, effect=e, restart=r) for i, (vs, e, r) in enumerate(knobs))
    by_name = {s.name: s for s in specs}
    baseline = {s.name: s.values[0] for s in specs}
    pin = {"k0": baseline["k0"]} if pinned and specs else {}

    def conflicts(settings: Settings) -> tuple[str, ...]:
        return ("banned",) if any(v == banned and type(v) is type(banned) for v in settings.values()) else ()

    made = candidates(job(**pin), specs, baseline, (), conflicts)
    assert made == candidates(job(**pin), specs, baseline, (), conflicts)
    assert made.num_combinations == made.num_refused + len(made.changes)
    for change in made.changes:
        assert change.moves
        assert not conflicts(change.applied_to(baseline))
        assert change.effect is heaviest(tuple(by_name[k].effect for k in moved(change)))
        assert change.effect is not Effect.ALGORITHM
        assert RESTART_ORDER.index(change.restart) == max(
            RESTART_ORDER.index(by_name[k].restart) for k in moved(change)
        )
        assert not set(pin) & set(moved(change))
        assert all(move.new in by_name[move.knob].values for move in change.moves)
