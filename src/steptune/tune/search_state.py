"""What the trials so far say about the search: incumbent, banned moves, suspects, evidence to learn from. Pure.

A resumed session computes the same from the same journal, so nothing of the search is kept anywhere else.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from steptune.core.change import Change
from steptune.core.decision import Outcome
from steptune.core.event import LearntFrom, TrialEnded
from steptune.core.forecast import Forecast
from steptune.core.knob import Effect, KnobValue
from steptune.core.trial import TrialState
from steptune.core.verdict import Judgement, Verdict
from steptune.forecast.forecast import raw_ratio
from steptune.propose.choose import guilty_moves
from steptune.store.replay import SessionState

BLAMED: Mapping[str, frozenset[Effect]] = {
    "mismatch": frozenset({Effect.PRECISION}),
    "entropy": frozenset({Effect.PRECISION, Effect.STALENESS}),
    "off_policy": frozenset({Effect.STALENESS}),
    "reward": frozenset({Effect.PRECISION, Effect.STALENESS}),
    "truncation": frozenset({Effect.PRECISION, Effect.STALENESS}),
    "update_parity": frozenset({Effect.NONE}),
}
"""Effect classes of the moves that a failed guard blames."""

Banned = frozenset[tuple[str, KnobValue]]
"""Knob and new value of moves that are not tried again."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchState:
    """See the module docstring."""

    tried: frozenset[str]
    """Signatures with a result."""
    banned: Banned
    suspects: Banned
    """Moves of launches that failed, not yet cleared by one that ran: one of them is the cause."""
    incumbent: TrialEnded | None
    """Fastest adopted trial without a banned move; None is the baseline."""
    history: tuple[LearntFrom, ...]

    @property
    def incumbent_ratio(self) -> float:
        """Incumbent / baseline step time."""
        ratio = self.incumbent.ratio_to_baseline if self.incumbent else None
        return ratio.value if ratio else 1.0

    def is_open(self, change: Change) -> bool:
        """Whether ``change`` may be tried: not done, not banned, and not carrying most of the suspects again."""
        moves = moves_of(change)
        if change.signature in self.tried or moves & self.banned:
            return False
        return len(moves & self.suspects) <= len(self.suspects) // 2


def search_state(state: SessionState, effects: Mapping[str, Effect]) -> SearchState:
    """Read the search off the journal."""
    ended = state.ended
    banned = guilty(ended, effects) | reward_guilty(state, effects)
    suspects, caught = unsettled_failures(ended)
    banned |= caught
    adopted = [e for e in ended if e.outcome is Outcome.ADOPT and not moves_of(e.trial.change) & banned]
    return SearchState(
        tried=frozenset(e.trial.change.signature for e in ended),
        banned=banned,
        suspects=suspects - banned,
        incumbent=min(adopted, key=_ratio_value, default=None),
        history=tuple(learnt for e in ended if (learnt := _learnt(state, e)) is not None),
    )


def guilty(ended: tuple[TrialEnded, ...], effects: Mapping[str, Effect]) -> Banned:
    """Return moves that a failed guard of a trial blames."""
    found: set[tuple[str, KnobValue]] = set()
    for event in ended:
        found |= blamed_moves(event.trial.change, event.verdicts, effects)
    return frozenset(found)


def reward_guilty(state: SessionState, effects: Mapping[str, Effect]) -> Banned:
    """Return moves that a failed reward test blames."""
    changes = {event.trial.change.signature: event.trial.change for event in state.ended}
    found: set[tuple[str, KnobValue]] = set()
    for test in state.reward_tests:
        if test.signature in changes:
            found |= blamed_moves(changes[test.signature], test.verdicts, effects)
    return frozenset(found)


def blamed_moves(change: Change, verdicts: tuple[Verdict, ...], effects: Mapping[str, Effect]) -> Banned:
    """Return the moves of ``change`` that its failed verdicts blame; an INCONCLUSIVE mismatch blames as FAIL does,
    for what cannot be guarded cannot be used."""
    blamed: set[Effect] = set()
    for verdict in verdicts:
        is_blind = verdict.guard == "mismatch" and verdict.judgement is Judgement.INCONCLUSIVE
        if verdict.judgement is Judgement.FAIL or is_blind:
            blamed |= BLAMED.get(verdict.guard, frozenset())
    return guilty_moves(change, effects, blamed)


def unsettled_failures(ended: tuple[TrialEnded, ...]) -> tuple[Banned, Banned]:
    """Return (suspects, caught) from launches that died: halving finds the cause as in a group test."""
    died = (TrialState.OUT_OF_MEMORY, TrialState.FAILED)
    cleared: set[tuple[str, KnobValue]] = set()
    for event in ended:
        if event.trial.state not in died:
            cleared |= moves_of(event.trial.change)
    suspects: set[tuple[str, KnobValue]] = set()
    caught: set[tuple[str, KnobValue]] = set()
    for event in ended:
        if event.trial.state in died:
            left = moves_of(event.trial.change) - cleared
            (caught if len(left) == 1 else suspects).update(left)
    return frozenset(suspects - caught), frozenset(caught)


def moves_of(change: Change) -> Banned:
    """Return the change's moves as (knob, new value) pairs."""
    return frozenset((move.knob, move.new) for move in change.moves)


def forecast_error(forecast: Forecast, measured_ratio: float) -> float:
    """Return measured / forecast - 1."""
    return measured_ratio / forecast.ratio.value - 1


def _ratio_value(event: TrialEnded) -> float:
    assert event.ratio_to_baseline is not None, "an adopted trial has a ratio"
    return event.ratio_to_baseline.value


def _learnt(state: SessionState, event: TrialEnded) -> LearntFrom | None:
    forecast = state.forecasts.get(event.trial.number)
    if event.ratio_to_baseline is None or forecast is None or state.baseline is None:
        return None
    raw = raw_ratio(
        profile=state.baseline, planned_baseline=forecast.planned_baseline, planned=forecast.planned
    )
    return LearntFrom(
        change=event.trial.change, raw_forecast_ratio=raw, measured_ratio=event.ratio_to_baseline.value
    )
