from collections.abc import Sequence
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from steptune.core.change import Change, Move
from steptune.core.decision import Outcome
from steptune.core.estimate import Estimate, Source
from steptune.core.event import RewardTested, TrialEnded
from steptune.core.knob import Effect, Restart, heaviest
from steptune.core.trial import Trial, TrialState
from steptune.core.verdict import Judgement, Verdict
from steptune.store.replay import SessionState
from steptune.tune.blame import blame
from steptune.tune.search_state import SearchState, search_state

EFFECTS = {
    "layout": Effect.NONE,
    "recompute": Effect.NONE,
    "compact": Effect.NONE,
    "dtype": Effect.PRECISION,
    "kernel": Effect.PRECISION,
    "schedule": Effect.STALENESS,
}


def change(*knobs: str) -> Change:
    moves = tuple(Move(knob=knob, old=0, new=1) for knob in sorted(knobs))
    effect = heaviest(tuple(EFFECTS.get(knob, Effect.NONE) for knob in knobs))
    return Change(moves=moves, effect=effect, restart=Restart.HOT)


def verdict(guard: str, judgement: Judgement) -> Verdict:
    return Verdict(guard=guard, judgement=judgement, limit="", because="")


def ended(
    number: int,
    knobs: Sequence[str],
    *verdicts: tuple[str, Judgement],
    state: TrialState = TrialState.FINISHED,
    ratio: float | None = None,
) -> TrialEnded:
    measured = None if ratio is None else Estimate(value=ratio, unit="x", source=Source.MEASURED)
    return TrialEnded(
        trial=Trial(number=number, change=change(*knobs), state=state),
        verdicts=tuple(verdict(guard, judgement) for guard, judgement in verdicts),
        outcome=Outcome.REJECT if ratio is None else Outcome.ADOPT,
        reasons=(),
        ratio_to_baseline=measured,
    )


def after(*events: TrialEnded) -> SessionState:
    return SessionState(ended=events)


def knobs_of(moves: frozenset[tuple[str, object]]) -> set[str]:
    return {knob for knob, _ in moves}


FAIL, PASS, OPEN = Judgement.FAIL, Judgement.PASS, Judgement.INCONCLUSIVE


def test_a_guard_blames_only_the_class_it_watches() -> None:
    found = blame(after(ended(1, ["layout", "dtype", "schedule"], ("mismatch", FAIL))), EFFECTS)
    assert knobs_of(found.banned) == {"dtype"}
    assert found.suspects == ()


def test_two_moves_of_the_blamed_class_are_suspects_and_half_may_be_tried() -> None:
    state = after(ended(1, ["layout", "dtype", "kernel"], ("mismatch", FAIL)))
    assert blame(state, EFFECTS).banned == frozenset()
    search = search_state(state, EFFECTS)
    assert search.is_open(change("layout", "dtype"))
    assert search.is_open(change("layout", "kernel"))
    assert not search.is_open(change("dtype", "kernel"))


def test_a_pass_clears_and_leaves_one_guilty() -> None:
    state = after(ended(1, ["dtype", "kernel"], ("mismatch", FAIL)), ended(2, ["dtype"], ("mismatch", PASS)))
    assert knobs_of(blame(state, EFFECTS).banned) == {"kernel"}


def test_a_pass_of_one_guard_does_not_clear_of_another() -> None:
    state = after(ended(1, ["dtype", "kernel"], ("mismatch", FAIL)), ended(2, ["dtype"], ("entropy", PASS)))
    assert blame(state, EFFECTS).banned == frozenset()


def test_once_the_cause_is_found_its_group_is_free_again() -> None:
    state = after(
        ended(1, ["layout", "recompute", "compact"], state=TrialState.OUT_OF_MEMORY),
        ended(2, ["recompute"], state=TrialState.OUT_OF_MEMORY),
    )
    found = blame(state, EFFECTS)
    assert knobs_of(found.banned) == {"recompute"}
    assert found.suspects == ()
    assert search_state(state, EFFECTS).is_open(change("layout", "compact"))


def test_a_label_that_explains_nothing_accuses_every_move() -> None:
    # nothing here may touch precision by its label, but the gap is there
    state = after(ended(1, ["layout", "recompute"], ("mismatch", FAIL)), ended(2, ["layout"], ("mismatch", PASS)))
    assert knobs_of(blame(state, EFFECTS).banned) == {"recompute"}


def test_an_owed_guard_that_cannot_tell_accuses_too() -> None:
    assert knobs_of(blame(after(ended(1, ["dtype"], ("mismatch", OPEN))), EFFECTS).banned) == {"dtype"}
    assert knobs_of(blame(after(ended(1, ["layout"], ("update_parity", OPEN))), EFFECTS).banned) == {"layout"}
    # a change of precision owes parity for the layout that it carries
    assert knobs_of(blame(after(ended(1, ["layout", "dtype"], ("update_parity", OPEN))), EFFECTS).banned) == {"layout"}
    # and one of nothing owes no watch over ages
    assert blame(after(ended(1, ["layout"], ("off_policy", OPEN))), EFFECTS).banned == frozenset()


def test_a_trial_stopped_early_is_not_blamed_for_guards_it_had_no_steps_for() -> None:
    stopped = ended(1, ["dtype"], ("entropy", OPEN), state=TrialState.STOPPED)
    assert blame(after(stopped), EFFECTS).banned == frozenset()


def test_a_failed_reward_test_bans_every_move_that_owed_it() -> None:
    tested = RewardTested(
        signature=change("layout", "dtype", "schedule").signature,
        start_S=(),
        baseline_S=(),
        candidate_S=(),
        baseline_truncated_S=(),
        candidate_truncated_S=(),
        verdicts=(verdict("length", FAIL),),
        cost_wall_s=0.0,
        cost_device_s=0.0,
    )
    winner = ended(1, ["layout", "dtype", "schedule"], ratio=0.5)
    state = SessionState(ended=(winner,), reward_tests=(tested,))
    assert knobs_of(blame(state, EFFECTS).banned) == {"dtype", "schedule"}
    assert search_state(SessionState(ended=(winner,)), EFFECTS).incumbent is winner
    assert search_state(state, EFFECTS).incumbent is None


def test_an_adopted_trial_whose_owed_guard_is_open_is_no_incumbent() -> None:
    winner = ended(1, ["layout", "recompute"], ("update_parity", OPEN), ratio=0.5)
    assert search_state(after(winner), EFFECTS).incumbent is None


def test_of_equally_fast_trials_the_lightest_to_prove_then_the_smallest_is_preferred() -> None:
    whole = ended(1, ["layout", "dtype"], ratio=0.500)
    slim = ended(2, ["layout"], ratio=0.500)
    slower = ended(3, ["compact"], ratio=0.501)
    assert search_state(after(whole, slim, slower), EFFECTS).incumbent is slim
    # without a known noise band 0.501 is not as fast as 0.500
    assert search_state(after(whole, slower), EFFECTS).incumbent is whole


def test_a_trial_that_its_replay_ended_clears_no_move_of_a_death() -> None:
    died = ended(1, ["layout", "recompute"], state=TrialState.OUT_OF_MEMORY)
    screened_out = ended(2, ["layout"], state=TrialState.STOPPED)
    assert knobs_of(blame(after(died, screened_out), EFFECTS).banned) == set()
    ran = ended(2, ["layout"])
    assert knobs_of(blame(after(died, ran), EFFECTS).banned) == {"recompute"}


def first_open(search: SearchState, names: list[str]) -> list[str]:
    """Return as many moves as may be tried together, from the first place in turn where any may."""
    for start in range(len(names)):
        moves = [*names[start:], *names[:start]]
        while moves and not search.is_open(change(*moves)):
            moves.pop()
        if moves:
            return moves
    raise AssertionError("something must stay open until the cause is found")


@given(
    num_moves=st.integers(2, 9),
    guilty=st.integers(0, 8),
    order=st.randoms(use_true_random=False),
)
def test_halving_finds_one_guilty_move_of_any_number_and_never_repeats_a_trial(
    num_moves: int, guilty: int, order: Random
) -> None:
    names = [f"k{i}" for i in range(num_moves)]
    culprit = names[guilty % num_moves]
    events = [ended(1, names, state=TrialState.OUT_OF_MEMORY)]
    while not (banned := blame(after(*events), {}).banned):
        order.shuffle(names)
        open_moves = first_open(search_state(after(*events), {}), names)
        died = culprit in open_moves
        state = TrialState.OUT_OF_MEMORY if died else TrialState.FINISHED
        events.append(ended(len(events) + 1, open_moves, state=state))
    assert knobs_of(banned) == {culprit}
    assert len({event.trial.change.signature for event in events}) == len(events)
    assert len(events) <= 2 + num_moves
