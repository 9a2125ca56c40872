"""Which moves the failures so far blame. Pure.

A trial carries several moves, so a failure accuses a *group*: the moves whose effect class the failed guard watches,
or all of them where the label explains nothing (a wrong label is found out here) or the launch died. Each cause is
a group test of its own::

    accused {A B C D} -> what passes with a chance of half may be tried -> {A B} passes: A, B are cleared of this cause
                         (`suspicion`)                                  -> {C} fails:   one left, so C is banned

The surprise: an INCONCLUSIVE guard that the change owes accuses as a FAIL does, for what cannot be guarded cannot be
used. A reward test costs more than a whole search, so there every move of the blamed classes is banned at once. What
only a confirmation has shown is a cause of its own: the trial's guards had passed, and clear nobody of it. A move that
is relabelled and tried on (`tune.relabel`) is not banned for the updates that it makes.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from steptune.core.change import Change
from steptune.core.event import Confirmed, TrialEnded
from steptune.core.knob import Effect, KnobValue
from steptune.core.trial import TrialState
from steptune.core.verdict import Judgement, Verdict
from steptune.decide.owed import OWED_AT_DECISION
from steptune.guard.update_parity import NAME as PARITY
from steptune.propose.choose import guilty_moves
from steptune.store.replay import SessionState
from steptune.tune.refuted import DIED, Refuted, refuted
from steptune.tune.relabel import Relabels, labels_then, tried_on
from steptune.tune.suspicion import Moves

BLAMED: Mapping[str, frozenset[Effect]] = {
    "mismatch": frozenset({Effect.PRECISION}),
    "entropy": frozenset({Effect.PRECISION, Effect.STALENESS}),
    "off_policy": frozenset({Effect.STALENESS}),
    "steady": frozenset({Effect.STALENESS}),
    PARITY: frozenset({Effect.NONE}),
}
"""Effect classes of the moves that a guard of a trial watches; a guard that is not listed watches all."""

REWARD_BLAMES = frozenset({Effect.PRECISION, Effect.STALENESS})
"""Effect classes that owe a reward test: a failed one blames them."""

CONFIRMED = "confirmed "
"""Begins the name of a cause that a confirmation has shown."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Blame:
    """``Blame(banned={("rollout_dtype", "int4")}, suspects=(({("layout", "packed"), ("recompute", False)},),))``."""

    banned: Moves
    """Found guilty: never tried again."""
    suspects: tuple[tuple[Moves, ...], ...]
    """Groups with a cause not found yet, the groups of each cause together."""


def blame(state: SessionState, effects: Mapping[str, Effect]) -> Blame:
    """Return what the trials and reward tests in the journal blame."""
    cleared: dict[str, set[tuple[str, KnobValue]]] = {}
    for event in state.ended:
        for cause in _passed(event):
            cleared.setdefault(cause, set()).update(moves_of(event.trial.change))
    groups: dict[str, list[Moves]] = {}
    relabels = tried_on(state, effects)
    for event in state.ended:
        for cause, group in accusations(event, labels_then(event, effects, relabels)):
            groups.setdefault(cause, []).append(group - cleared.get(cause, set()))
    passed = cleared_by_confirmations(state)
    for each in refuted(state):
        for cause, group in accused_when_confirmed(each, labels_then(each.trial, effects, relabels)):
            groups.setdefault(cause, []).append(group - passed.get(cause, frozenset()))
    groups[PARITY] = [group for group in groups.get(PARITY, ()) if not group & relabels.keys()]  # explained, and no ban
    sole = (move for each in groups.values() for group in each if len(group) == 1 for move in group)
    banned = frozenset(sole) | _reward_guilty(state, effects, relabels)
    by_cause = (tuple(group for group in each if group and not group & banned) for each in groups.values())
    return Blame(banned=banned, suspects=tuple(each for each in by_cause if each))


def accusations(event: TrialEnded, effects: Mapping[str, Effect]) -> Iterator[tuple[str, Moves]]:
    """Yield every cause for which ``event`` failed, with the moves it accuses."""
    change = event.trial.change
    if _is_dead(event):
        yield DIED, moves_of(change)
    for verdict in event.verdicts:
        if verdict.judgement is Judgement.FAIL or _is_blind(event, verdict):
            yield verdict.guard, _blamed(change, verdict.guard, effects)


def accused_when_confirmed(each: Refuted, effects: Mapping[str, Effect]) -> Iterator[tuple[str, Moves]]:
    """Yield every cause for which a winner failed in its confirmation, with the moves it accuses."""
    change = each.trial.trial.change
    return ((CONFIRMED + cause, _blamed(change, cause, effects)) for cause in each.causes)


def _blamed(change: Change, guard: str, effects: Mapping[str, Effect]) -> Moves:
    return guilty_moves(change, effects, BLAMED.get(guard, frozenset())) or moves_of(change)


def moves_of(change: Change) -> Moves:
    """Return the change's moves as (knob, new value) pairs."""
    return frozenset((move.knob, move.new) for move in change.moves)


def _passed(event: TrialEnded) -> list[str]:
    passed = [verdict.guard for verdict in event.verdicts if verdict.judgement is Judgement.PASS]
    never_ran = event.trial.state is TrialState.STOPPED and not event.trial.arms
    return passed if _is_dead(event) or never_ran else [DIED, *passed]


def cleared_by_confirmations(state: SessionState) -> Mapping[str, Moves]:
    """Return the moves that a confirmation has shown not to be guilty, by cause."""
    changes = {event.trial.change.signature: event.trial.change for event in state.ended}
    cleared: dict[str, Moves] = {}
    for each in state.confirmations:
        if isinstance(each, Confirmed) and each.signature in changes:
            passed = [verdict.guard for verdict in each.verdicts if verdict.judgement is Judgement.PASS]
            for cause in (DIED, *passed):
                name = CONFIRMED + cause
                cleared[name] = cleared.get(name, frozenset()) | moves_of(changes[each.signature])
    return cleared


def _is_dead(event: TrialEnded) -> bool:
    return event.trial.state in (TrialState.OUT_OF_MEMORY, TrialState.FAILED)


def _is_blind(event: TrialEnded, verdict: Verdict) -> bool:
    """A stopped trial has too few steps for some guards; only its mismatch then means something: a limit broken."""
    if verdict.judgement is not Judgement.INCONCLUSIVE:
        return False
    is_owed = verdict.guard in OWED_AT_DECISION.get(event.trial.change.effect, ())
    return is_owed and (event.trial.state is TrialState.FINISHED or verdict.guard == "mismatch")


def _reward_guilty(state: SessionState, effects: Mapping[str, Effect], relabels: Relabels) -> Moves:
    trials = {event.trial.change.signature: event for event in state.ended}
    found: set[tuple[str, KnobValue]] = set()
    for test in state.reward_tests:
        failed = any(verdict.judgement is Judgement.FAIL for verdict in test.verdicts)
        if failed and test.signature in trials:
            trial = trials[test.signature]
            found |= guilty_moves(trial.trial.change, labels_then(trial, effects, relabels), REWARD_BLAMES)
    return frozenset(found)
