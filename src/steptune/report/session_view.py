"""The journal's events sorted by kind, so that a card asks for what it shows.

Surprise: everything may be missing. A killed session has no decision, a very early one not even a profile;
a trial that was started twice (killed, then resumed) has two starts and one end.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from steptune.core.change import Change
from steptune.core.decision import Decision, Outcome
from steptune.core.event import (
    ConfirmationFailed,
    Confirmed,
    Decided,
    Diagnosed,
    Event,
    Forecasted,
    HalfReplayed,
    Profiled,
    Proposed,
    Reserved,
    RewardTested,
    SessionEnded,
    SessionResumed,
    SessionStarted,
    TrialEnded,
    TrialStarted,
    Waterfall,
    WaterfallStep,
)
from steptune.core.knob import Effect, Restart
from steptune.core.trial import Observation
from steptune.core.verdict import Verdict

KindT = TypeVar("KindT")

BASELINE_SIGNATURE = Change(moves=(), effect=Effect.NONE, restart=Restart.HOT).signature
"""Signature of the arms that ran the baseline as it is."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionView:
    """What a session left in its journal; None or empty where it got not that far."""

    started: SessionStarted | None
    resumes: tuple[SessionResumed, ...]
    baseline: Profiled | None
    tuned: Profiled | None
    profiles: tuple[Profiled, ...]
    """All of them: a profile measured again after a crash was paid for twice."""
    diagnosed: Diagnosed | None
    proposed: Proposed | None
    forecasts: tuple[Forecasted, ...]
    halves: tuple[HalfReplayed, ...]
    """Sides replayed alone before a trial was chosen."""
    trial_starts: tuple[TrialStarted, ...]
    trial_ends: tuple[TrialEnded, ...]
    reserves: tuple[Reserved, ...]
    """One for every winner of the search."""
    reward_tests: tuple[RewardTested, ...]
    waterfalls: tuple[Waterfall, ...]
    confirmations: tuple[Confirmed, ...]
    failed_confirmations: tuple[ConfirmationFailed, ...]
    """Of winners that died in them."""
    decision: Decision | None
    ended: SessionEnded | None
    last_kind: str | None
    """Kind of the last event."""

    @property
    def killed_trials(self) -> tuple[TrialStarted, ...]:
        """Trials that never got a result, each once."""
        done = {end.trial.number for end in self.trial_ends}
        return tuple({start.number: start for start in self.trial_starts if start.number not in done}.values())

    @property
    def unfinished_because(self) -> str | None:
        """Why there is no decision; None when there is one."""
        if self.decision is not None:
            return None
        if self.ended is not None:
            return f"it ended without a decision: {self.ended.why}"
        return f"the journal stops after `{self.last_kind}`" if self.last_kind else "the journal is empty"

    @property
    def is_change_out(self) -> bool:
        """Whether a changed configuration was handed back; a rejected one leaves the baseline in its place."""
        return self.decision is not None and self.decision.outcome in (Outcome.ADOPT, Outcome.PROVISIONAL)

    @property
    def decided_confirmation(self) -> Confirmed | None:
        """The confirmation of what was decided on; the last one where nothing was, for then it chose nothing."""
        moved = self.decision.change if self.decision and self.decision.change.moves else None
        return _last(c for c in self.confirmations if moved is None or c.signature == moved.signature)

    def decided_observations(self) -> tuple[Observation, ...]:
        """Return every recorded step of the configuration that was handed back."""
        if self.decision is None:
            return ()
        signature = self.decision.change.signature if self.is_change_out else BASELINE_SIGNATURE
        arms = [arm for confirmed in self.confirmations for arm in confirmed.arms]
        arms += [arm for profiled in self.profiles for arm in profiled.arms]
        arms += [arm for end in self.trial_ends for arm in end.trial.arms]
        return tuple(step for arm in arms if arm.signature == signature for step in arm.observations)

    def decided_verdict(self, prefix: str) -> Verdict | None:
        """Return the verdict of the guard whose name starts with ``prefix`` on what was handed back.

        A rejected candidate's verdicts say nothing about the baseline that takes its place.
        """
        verdicts = self.decision.verdicts if self.decision and self.is_change_out else ()
        return next((verdict for verdict in verdicts if verdict.guard.startswith(prefix)), None)


def view_session(events: Sequence[Event]) -> SessionView:
    """Sort ``events`` by kind, keeping their order; the last one counts where only one can be true."""
    profiles = _every(events, Profiled)
    decided = _last(_every(events, Decided))
    return SessionView(
        started=next(iter(_every(events, SessionStarted)), None),
        resumes=_every(events, SessionResumed),
        baseline=_last(p for p in profiles if p.label == "baseline"),
        tuned=_last(p for p in profiles if p.label == "tuned"),
        profiles=profiles,
        diagnosed=_last(_every(events, Diagnosed)),
        proposed=_last(_every(events, Proposed)),
        forecasts=_every(events, Forecasted),
        halves=_every(events, HalfReplayed),
        trial_starts=_every(events, TrialStarted),
        trial_ends=_every(events, TrialEnded),
        reserves=_every(events, Reserved),
        reward_tests=_every(events, RewardTested),
        waterfalls=_every(events, Waterfall),
        confirmations=_every(events, Confirmed),
        failed_confirmations=_every(events, ConfirmationFailed),
        decision=decided.decision if decided else None,
        ended=_last(_every(events, SessionEnded)),
        last_kind=events[-1].kind if events else None,
    )


def _every(events: Sequence[Event], kind: type[KindT]) -> tuple[KindT, ...]:
    return tuple(event for event in events if isinstance(event, kind))


def _last(items: Iterable[KindT]) -> KindT | None:
    return next(reversed(list(items)), None)


def added_text(view: SessionView, row: WaterfallStep) -> str:
    """Return what a row of the waterfall added, and whether it was taken out again before the decision."""
    if view.decision is None or not view.decision.change.moves:
        return row.added
    is_kept = any(str(move) in row.added for move in view.decision.change.moves)
    return row.added if is_kept else f"{row.added} (taken out again: no gain of its own)"
