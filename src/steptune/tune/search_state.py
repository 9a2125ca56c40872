"""What the trials so far say about the search: incumbent, banned moves, suspects, evidence to learn from. Pure.

A resumed session computes the same from the same journal, so nothing of the search is kept anywhere else.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

from steptune.core.change import Change
from steptune.core.decision import Outcome
from steptune.core.event import HalfReplayed, LearntFrom, TrialEnded
from steptune.core.knob import EFFECT_ORDER, Effect, Restart
from steptune.core.phase import Role
from steptune.forecast.curve import ForecastError
from steptune.forecast.learn_trial import arm_phases, learnt_from, learnt_from_half
from steptune.stats.noise import noise_band_frac
from steptune.store.replay import SessionState
from steptune.tune.blame import accusations, accused_when_confirmed, blame, moves_of
from steptune.tune.refuted import refuted
from steptune.tune.relabel import has_old_label, labels_then, relabelled
from steptune.tune.suspicion import Moves, Suspicion

ROUNDING = 1e-9
"""What a chance of one half may lack."""

BASELINE_SIGNATURE = Change(moves=(), effect=Effect.NONE, restart=Restart.HOT).signature
"""Of no change at all."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class SearchState:
    """See the module docstring."""

    tried: frozenset[str]
    """Signatures with a result, under the labels that their moves have now."""
    banned: Moves
    """Moves found guilty of something."""
    relabelled: Moves
    """Moves whose label turned out to be wrong (`tune.relabel`)."""
    suspicion: Suspicion
    """What may be guilty of failures whose cause is not found yet."""
    incumbent: TrialEnded | None
    """Best adopted trial (see `_best`) without a banned move, and without all the moves that a winner's confirmation
    accuses; None is the baseline."""
    history: tuple[LearntFrom, ...]

    @property
    def incumbent_ratio(self) -> float:
        """Incumbent / baseline of the objective."""
        return _ratio_value(self.incumbent) if self.incumbent else 1.0

    def is_open(self, change: Change) -> bool:
        """Whether ``change`` may be tried: not done, not banned, and likelier than not to pass where others failed."""
        moves = moves_of(change)
        if change.signature in self.tried or moves & self.banned:
            return False
        return self.pass_chance(change) >= 0.5 - ROUNDING

    def pass_chance(self, change: Change) -> float:
        """Return the chance that ``change`` does not fail of what others failed of."""
        return self.suspicion.pass_chance(moves_of(change))


def search_state(state: SessionState, effects: Mapping[str, Effect]) -> SearchState:
    """Read the search off the journal."""
    blamed = blame(state, effects)
    relabels = relabelled(state, effects)
    refuted_groups = [
        group
        for each in refuted(state)
        for _, group in accused_when_confirmed(each, labels_then(each.trial, effects, relabels))
    ]
    adopted = [
        event
        for event in state.ended
        if event.outcome is Outcome.ADOPT
        and not moves_of(event.trial.change) & blamed.banned
        and not any(accusations(event, labels_then(event, effects, relabels)))
        and not any(group <= moves_of(event.trial.change) for group in refuted_groups)
    ]
    return SearchState(
        tried=frozenset(
            event.trial.change.signature
            for event in state.ended
            if not has_old_label(event.trial.change, event.trial.number, relabels)
        ),
        banned=blamed.banned,
        relabelled=frozenset(relabels),
        suspicion=Suspicion.of((*blamed.suspects, died_alone(state))),
        incumbent=_best(adopted, band_frac(state)),
        history=(*_learnt_halves(state), *_learnt_trials(state)),
    )


def died_alone(state: SessionState) -> tuple[Moves, ...]:
    """Return the groups of moves that replays of halves died with, less those that others ran with.

    One move alone is not accused: both arms of a replay share a process and its memory, so the last word is a launch's.
    """
    ran = {move for event in state.ended if event.trial.arms for move in moves_of(event.trial.change)}
    ran |= {move for half in state.halves if half.times is not None for move in _moves_replayed(half)}
    groups = (_moves_replayed(half) - ran for half in state.halves if half.times is None)
    return tuple(group for group in groups if len(group) > 1)


def _moves_replayed(half: HalfReplayed) -> Moves:
    both = moves_of(half.change) | moves_of(half.beside)
    return frozenset((knob, value) for knob, value in both if knob in half.side_knobs)


def moves_of_side(change: Change, side: Role, sides: Mapping[str, Role]) -> Moves:
    """Return the moves of the knobs of one side; ``sides`` is that of every knob."""
    return frozenset((knob, value) for knob, value in moves_of(change) if sides[knob] is side)


def band_frac(state: SessionState) -> float:
    """Return the noise band of step times, 0 where it is not known (nothing is then called equal)."""
    noise = state.baseline.noise if state.baseline else None
    return (noise_band_frac(noise) if noise else None) or 0.0


def _best(adopted: Sequence[TrialEnded], band: float) -> TrialEnded | None:
    """Return, of the trials as fast as the fastest within the noise, the lightest to prove, then fewest moves."""
    if not adopted:
        return None
    slowest = min(_ratio_value(event) for event in adopted) * (1 + band)
    equal = [event for event in adopted if _ratio_value(event) <= slowest]
    return min(equal, key=_burden)


def _burden(event: TrialEnded) -> tuple[int, int, float]:
    change = event.trial.change
    return EFFECT_ORDER.index(change.effect), len(change.moves), _ratio_value(event)


def _ratio_value(event: TrialEnded) -> float:
    assert event.ratio_to_baseline is not None, "an adopted trial has a ratio"
    return event.ratio_to_baseline.value


def _learnt_trials(state: SessionState) -> list[LearntFrom]:
    return [learnt for event in state.ended if (learnt := _learnt(state, event)) is not None]


def _learnt_halves(state: SessionState) -> list[LearntFrom]:
    if not state.halves:
        return []
    assert state.started is not None, "a session is recorded before its replays"
    assert state.baseline is not None, "a profile is measured before its halves"
    return [
        learnt_from_half(
            profile=state.baseline,
            planned_baseline=half.planned_baseline,
            planned=half.planned,
            change=half.change,
            objective=state.started.job.objective,
            side=half.side,
            knobs=half.knobs,
            side_ratio=half.ratio.value,
        )
        for half in state.halves
        if half.ratio is not None
    ]


def _learnt(state: SessionState, event: TrialEnded) -> LearntFrom | None:
    forecast = state.forecasts.get(event.trial.number)
    if event.ratio_to_baseline is None or forecast is None or state.baseline is None:
        return None
    assert state.started is not None, "a session is recorded before its trials"
    arms = {arm.label: arm for arm in event.trial.arms}
    is_baseline = "incumbent" in arms and arms["incumbent"].signature in ("", BASELINE_SIGNATURE)
    try:
        return learnt_from(
            profile=state.baseline,
            planned_baseline=forecast.planned_baseline,
            planned=forecast.planned,
            change=event.trial.change,
            objective=state.started.job.objective,
            measured_ratio=event.ratio_to_baseline.value,
            candidate=arm_phases(arms["candidate"].observations) if "candidate" in arms else None,
            baseline=arm_phases(arms["incumbent"].observations) if is_baseline else None,
        )
    except ForecastError:  # an ablation: there was no forecast that it could teach
        return None
