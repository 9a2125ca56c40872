"""Each limit of the owner, what the configuration handed back does to it, and how that is known.

A guard's verdict comes first; where no guard spoke, the largest recorded observation is held against the
limit. NaN or nothing recorded is INCONCLUSIVE, never kept.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from steptune.core.estimate import Estimate
from steptune.core.event import SessionStarted
from steptune.core.verdict import Judgement, Verdict
from steptune.report.numbers import measured, value_text
from steptune.report.session_view import SessionView


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class LimitKept:
    """One limit: ``LimitKept(limit="max_staleness", owner="1", observed=Estimate(1 updates), judgement=PASS)``."""

    limit: str
    owner: str
    """The owner's value."""
    observed: Estimate | None
    judgement: Judgement
    how: str
    """The guard that said so, or the observation that was read."""


def limits_kept(view: SessionView) -> tuple[LimitKept, ...]:
    """Return every limit of the job; empty without a job or a decision."""
    if view.started is None or view.decision is None:
        return ()
    job = view.started.job
    bound = job.limits
    k3_values = [step.mismatch.k3 if step.mismatch else None for step in view.decided_observations()]
    return (
        _staleness(view, view.started),
        _corrections(view, view.started),
        _other_updates(view, bound.allow_other_updates),
        _guarded(
            view.decided_verdict("mismatch"),
            "max_mismatch_k3",
            f"{bound.max_mismatch_k3:g} nat",
            _bounded(k3_values, bound.max_mismatch_k3, "nat", "mean k3 of a step"),
        ),
        _memory(view, view.started),
        _reward(view, f"{bound.reward_margin:g}"),
    )


_Reading = tuple[Estimate | None, Judgement, str]
"""What was observed, what follows for the limit, and how it is known."""


def _guarded(verdict: Verdict | None, limit: str, owner: str, otherwise: _Reading) -> LimitKept:
    observed, judgement, how = otherwise
    if verdict is not None:
        observed, judgement, how = verdict.measured, verdict.judgement, f"guard `{verdict.guard}`"
    return LimitKept(limit=limit, owner=owner, observed=observed, judgement=judgement, how=how)


def _reward(view: SessionView, owner: str) -> LimitKept:
    reading: _Reading = (None, Judgement.INCONCLUSIVE, "no reward guard in the decision")
    if not view.is_change_out:
        reading = (None, Judgement.PASS, "the baseline itself is handed back")
    return _guarded(view.decided_verdict("reward"), "reward_margin", owner, reading)


def _staleness(view: SessionView, started: SessionStarted) -> LimitKept:
    allowed = started.job.limits.max_staleness
    own = started.job.algorithm.num_updates - 1
    lags = [step.lag_max for step in view.decided_observations()]
    how = f"oldest trained token, of which {own} is the algorithm's own" if own else "oldest trained token"
    reading = _bounded(lags, allowed + own, "updates", how)
    return _guarded(None, "max_staleness", value_text(allowed, "updates"), reading)


def _corrections(view: SessionView, started: SessionStarted) -> LimitKept:
    own = started.job.algorithm.correction.kind
    used = view.decision.settings.get("correction", own) if view.decision else own
    is_kept = started.job.limits.allow_corrections or used == own
    return LimitKept(
        limit="allow_corrections",
        owner=str(started.job.limits.allow_corrections).lower(),
        observed=None,
        judgement=Judgement.PASS if is_kept else Judgement.FAIL,
        how=f"the configuration uses `{used}`, the job asks for `{own}`",
    )


def _other_updates(view: SessionView, is_allowed: bool) -> LimitKept:
    """Held by the replay of updates: a move that makes others is left out of it only where the owner lets it be."""
    reading: _Reading = (None, Judgement.INCONCLUSIVE, "no replay of updates in the decision")
    if is_allowed or not view.is_change_out:
        how = "it is allowed" if is_allowed else "the baseline itself is handed back"
        reading = (None, Judgement.PASS, how)
    return _guarded(view.decided_verdict("update_parity"), "allow_other_updates", str(is_allowed).lower(), reading)


def _memory(view: SessionView, started: SessionStarted) -> LimitKept:
    headroom = started.job.limits.memory_headroom_frac
    allowed = started.machine.memory_bytes * (1 - headroom)
    peaks = [step.memory_peak_bytes for step in view.decided_observations()]
    reading = _bounded(peaks, allowed, "bytes", f"peak memory against {value_text(allowed, 'bytes')}")
    return _guarded(view.decided_verdict("memory"), "memory_headroom_frac", f"{headroom:g}", reading)


def _bounded(values: Sequence[float | None], allowed: float, unit: str, how: str) -> _Reading:
    """Hold the largest of the recorded values against ``allowed``; one that is missing or NaN leaves it open."""
    known = [float(value) for value in values if value is not None]
    if not known:
        return None, Judgement.INCONCLUSIVE, "nothing recorded"
    has_nan = any(math.isnan(value) for value in known)
    largest = measured(math.nan if has_nan else max(known), unit, n=len(known), note="largest of the recorded steps")
    if has_nan or len(known) < len(values):
        return largest, Judgement.INCONCLUSIVE, f"{how}; {len(known)} of {len(values)} steps recorded it"
    return largest, Judgement.PASS if largest.value <= allowed else Judgement.FAIL, how
