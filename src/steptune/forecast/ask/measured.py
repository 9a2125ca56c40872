"""Seconds per side out of a log's profile, or the reason why no side's can be told.

Surprise: what is written `gen` in an asynchronous log is mostly the trainer's wait for samples. A wait is no
generation; without the rollout's own clock such a log is refused, not read wrongly.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from steptune.core.errors import explain
from steptune.core.estimate import Estimate
from steptune.core.paste import Paste
from steptune.core.phase import Phase, Role, SpanKind, parent_phase
from steptune.core.profile import Origin, PhaseTime, Profile
from steptune.forecast.cluster.profiled import TRAINING, totals_of
from steptune.forecast.cluster.totals import Totals
from steptune.forecast.curve import ForecastError
from steptune.published.switches import switches

OVERLAP_FRAC = 0.05
"""Part of a synchronous step by which its phases may exceed it: rounding and nested timers. Above it they overlap."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """``Measured(step=Estimate(...), totals=Totals(rollout_s=1150.0, train_s=17615.9, ...), origins={...})``."""

    step: Estimate
    totals: Totals
    origins: dict[str, tuple[Origin, ...]]
    """Lines behind each total, by the name under which the answer lists it."""


def measured_of(paste: Paste) -> tuple[Profile, Measured]:
    """Return the profile and its seconds per side.

    Raises:
        ForecastError: no step time, no phase times of both sides, phases that overlap in a synchronous step, or an
            asynchronous run whose generation is seen only as a wait.
    """
    profile = paste.profile
    if profile is None or not 0 < profile.step_time.value < math.inf:
        raise _refused(paste, "the log has no step time", got=f"{len(paste.phases)} phases outside of any step")
    totals = totals_of(profile)
    if profile.schedule == "async" and not totals.rollout_s > 0 and _is_waited_for(profile):
        raise _refused(
            paste,
            "the roles of this asynchronous run cannot be told apart",
            got="generation only as the trainer's wait for it",
            hint="paste the log of a synchronous run of the job, or one with the engines' own generation time",
        )
    lacking = [name for name, s in (("generation", totals.rollout_s), ("training", totals.train_s)) if not s > 0]
    if lacking:
        raise _refused(paste, f"the log has no phase times of {' and '.join(lacking)}", got=_timed(profile))
    return profile, Measured(step=profile.step_time, totals=_fitting(profile, totals), origins=_origins(profile))


def _is_waited_for(profile: Profile) -> bool:
    spans = [span for role in profile.roles for span in role.phases]
    return any(s.kind is SpanKind.EXPOSED_WAIT and parent_phase(s.phase) is Phase.ROLLOUT for s in spans)


def _fitting(profile: Profile, totals: Totals) -> Totals:
    """Return the totals, a few percent smaller where rounding lets them exceed a synchronous step.

    Raises:
        ForecastError: they exceed it by more.
    """
    if not all(math.isfinite(s) for s in (totals.rollout_s, totals.train_s, totals.sync_s, totals.switch_s)):
        raise ForecastError(
            explain("a phase is no number of seconds", got=str(totals), allowed="finite seconds", hint="mend the log")
        )
    step_s = profile.step_time.value
    sum_s = totals.rollout_s + totals.train_s + totals.sync_s + totals.switch_s
    if profile.schedule != "sync" or sum_s <= step_s:
        return totals
    if sum_s > step_s * (1 + OVERLAP_FRAC):
        raise ForecastError(
            explain(
                "the phases of this synchronous step overlap",
                got=f"{sum_s:.4g} s of phases in a step of {step_s:.4g} s",
                allowed="phases that take turns",
                hint="paste the trainer's own timers, or say that the run is asynchronous with its launch script",
            )
        )
    part = step_s / sum_s
    return replace(
        totals,
        rollout_s=totals.rollout_s * part,
        train_s=totals.train_s * part,
        sync_s=totals.sync_s * part,
        switch_s=totals.switch_s * part,
        carried_s=0.0,
    )


def _origins(profile: Profile) -> dict[str, tuple[Origin, ...]]:
    return {
        "generation": _lines(profile, (Phase.ROLLOUT,), (Role.ROLLOUT,)),
        "training and log-probs": _lines(profile, TRAINING, (Role.TRAINER,)),
        "weights": _lines(profile, (Phase.WEIGHT_SYNC,), tuple(Role)),
        "mode switch": _lines(profile, (Phase.MODE_SWITCH,), tuple(Role)),
    }


def _lines(profile: Profile, phases: Sequence[Phase], roles: Sequence[Role]) -> tuple[Origin, ...]:
    spans: list[PhaseTime] = [s for r in profile.roles if r.role in roles for s in r.phases]
    busy = [s for s in spans if s.kind is SpanKind.BUSY and s.phase in {phase.value for phase in phases}]
    return tuple(dict.fromkeys(s.origin for s in busy if s.origin is not None))


def _timed(profile: Profile) -> str:
    names = sorted({s.phase for r in profile.roles for s in r.phases if s.kind is SpanKind.BUSY})
    return f"{', '.join(names) or 'no phase'} beside the step"


def _refused(paste: Paste, what: str, *, got: str, hint: str | None = None) -> ForecastError:
    allowed = "seconds per step of generation and of training, each on its own clock"
    return ForecastError(explain(what, got=got, allowed=allowed, hint=hint or _switch(paste)))


def _switch(paste: Paste) -> str:
    rows = switches(paste.framework) if paste.framework is not None else ()
    if not rows:
        return "paste the trainer's own phase timers"
    first = rows[0]
    return (
        f"paste {first.line}: {first.prints}" if first.where == "file" else f"switch on `{first.line}`: {first.prints}"
    )
