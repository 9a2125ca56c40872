"""Winners that their own confirmation has rejected for a fault: they died in it, or a guard saw what no trial shows.

The search then goes on without them, and the next best that had passed is confirmed. The surprise: a gain that the
confirmation does not bear out is no fault, and ends the session. Whoever confirms one candidate after the other until a
gain shows will find one by chance; a fault says nothing about speed, so another confirmation is still the only claim.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from steptune.core.event import ConfirmationFailed, Confirmed, TrialEnded
from steptune.core.verdict import Judgement, Verdict
from steptune.decide.owed import MAKES_PROVISIONAL, OWED_AT_DECISION, failures, undecided
from steptune.store.replay import SessionState

DIED = "died"
"""Cause of launches that ended without a measurement."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Refuted:
    """``Refuted(trial=..., confirmation=..., causes=("length",), reasons=("length failed: ...",))``."""

    trial: TrialEnded
    """The latest of that change."""
    confirmation: Confirmed | ConfirmationFailed
    causes: tuple[str, ...]
    """Guards, or `DIED`."""
    reasons: tuple[str, ...]


def refuted(state: SessionState) -> tuple[Refuted, ...]:
    """Return the rejected winners, in the order of their confirmations."""
    trials = {event.trial.change.signature: event for event in state.ended}
    found: list[Refuted] = []
    for each in state.confirmations:
        trial = trials.get(each.signature)
        causes, reasons = _faults(each, trial) if trial is not None else ((), ())
        if trial is not None and causes:
            found.append(Refuted(trial=trial, confirmation=each, causes=causes, reasons=reasons))
    return tuple(found)


def failed_text(failed: ConfirmationFailed) -> str:
    """Say how a winner ended in its confirmation."""
    return f"the confirmation failed: {failed.state.replace('_', ' ')}: {failed.cause}"


def _faults(each: Confirmed | ConfirmationFailed, trial: TrialEnded) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if isinstance(each, ConfirmationFailed):
        return (DIED,), (failed_text(each),)
    blind = _blind(trial, each.verdicts)
    guards = [v.guard for v in each.verdicts if v.judgement is Judgement.FAIL] + [v.guard for v in blind]
    said = tuple(f"{verdict.guard} is inconclusive: {verdict.because}" for verdict in blind)
    return tuple(guards), (*failures(each.verdicts), *said)


def _blind(trial: TrialEnded, verdicts: Sequence[Verdict]) -> tuple[Verdict, ...]:
    """Return what the change owes and the confirmation could not tell, beyond what goes out with trip-wires."""
    owed = OWED_AT_DECISION[trial.trial.change.effect]
    return undecided([guard for guard in owed if guard not in MAKES_PROVISIONAL], verdicts)
