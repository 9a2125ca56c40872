"""What cannot be said from this input, and what would allow it.

Every absence is a finding of its own, so that silence is never read as "nothing is wrong".
"""

import re
from collections.abc import Sequence

from steptune.core.finding import Evidence, Finding, FindingKind, Remedy, Severity
from steptune.core.paste import Excerpt, ExcerptKind, Paste, Series
from steptune.core.phase import Role
from steptune.core.profile import Profile
from steptune.diagnose.durations import said
from steptune.diagnose.job import Job, mean_of, origin_of, read_job
from steptune.diagnose.settling import ramp_up
from steptune.diagnose.switch_lines import switch_lines
from steptune.diagnose.tables import has_times, tables

WARMUP_STEPS = 2
"""Steps that pay for compilation, graphs and caches, in frameworks that count from 1."""

LARGE_UNATTRIBUTED_FRAC = 0.2
"""Part of the step under no timer from which it is said: as large as a bottleneck worth treating. Prior."""

MAX_PHASES = 8
"""Phases without their step that are listed: more than that is a log of many steps, in which the step is timed."""

MAX_UNKNOWN = 4
"""Timers without a known place that are named."""

UNREAD = "timers not read, their time stays unattributed: "
"""Beginning of the readers' note on them."""

_REWARDS = ("reward", "reward_std", "rewards", "raw_reward", "score")


def no_claims(job: Job) -> list[Finding]:
    """Return every reason to say less, the most fundamental first."""
    paste = job.paste
    if is_empty(paste):
        unread = _finding("no_data", "Nothing here could be read: no steps, no configuration, no error text")
        timing = _timing(paste)
        return [unread, timing] if timing is not None else [unread]
    found = [_framework(paste), _timing(paste), *_steps(job), _reward(job), _unresolved(paste)]
    return [finding for finding in found if finding is not None]


def is_empty(paste: Paste) -> bool:
    """Return whether nothing at all was recognised."""
    return paste.profile is None and not (paste.settings or paste.series or paste.excerpts)


def has_phases(paste: Paste) -> bool:
    """Return whether any part of a step is timed; a step time alone is none."""
    return paste.profile is not None and any(role.phases for role in paste.profile.roles)


def switch_on(paste: Paste) -> tuple[str, ...]:
    """Return the lines that would print timings, where the input has none or only a progress bar."""
    if has_phases(paste):
        return ()
    return tuple(f"{line}  # {prints}" if prints else line for line, prints in switch_lines(read_job(paste)))


def _framework(paste: Paste) -> Finding | None:
    if paste.framework is not None:
        return None
    return _finding("unknown_framework", "The framework could not be recognised, so keys are read by their names alone")


def _timing(paste: Paste) -> Finding | None:
    if has_phases(paste):
        return None
    bars = [e for e in paste.excerpts if e.kind is ExcerptKind.PROGRESS]
    in_table = [row for table in tables(paste) if has_times(table) for row in table.rows]
    partial = (
        bars
        or in_table
        or [s for s in paste.series if s.name in ("step_time", "rollout_time") or re.search(r"time|timing", s.name)]
    )
    lines = tuple(line for line, _ in switch_lines(read_job(paste)))
    remedy = (Remedy(text="print the timers of the phases, then paste ten steps", lines=lines),) if lines else ()
    if paste.profile is not None:
        title = "Only whole steps are timed: where a step goes cannot be said"
        return _finding("partial_timing", title, remedies=remedy)
    if paste.phases:
        title = "Phases are timed, but not the step that they are part of: no share and no ceiling can be said"
        return _finding("partial_timing", title, evidence=_phases(paste), remedies=remedy)
    if partial:
        what = "a progress bar" if bars else "a hand-made table" if in_table else "one timer of the step"
        title = f"Only {what} gives time{_about(paste)}: where a step goes cannot be said"
        return _finding("partial_timing", title, evidence=_seen(bars), remedies=remedy)
    return _finding(
        "no_timing", f"No timing in the input{_reached(paste)}: no bottleneck can be named", remedies=remedy
    )


def _about(paste: Paste) -> str:
    """What a progress bar allows to say of the step: an estimate, with its warning."""
    series = paste.get_series("step_time")
    values = series.finite() if series is not None else []
    if not values:
        return ""
    if len(values) == 1:
        return f", about {said(values[0])} a step by one reading that may hold loading and warm-up"
    return f", {said(min(values))} to {said(max(values))} a step with loading, saves and validation in it"


def _reached(paste: Paste) -> str:
    steps = [p.step for s in paste.series for p in s.points if p.step is not None]
    return f" (the log reaches step {max(steps)})" if steps else ""


def _steps(job: Job) -> list[Finding | None]:
    paste = job.paste
    if paste.profile is None:
        return []
    moving, times = ramp_up(job), _step_times(job)
    return [
        _finding("one_step", "One step only: no interval, and no difference can be claimed against it", evidence=times)
        if paste.profile.num_steps == 1
        else None,
        _finding(
            "warm_up_only",
            f"No step after step {WARMUP_STEPS} is there: the first ones pay for warm-up",
            evidence=times,
        )
        if _is_warm_up(paste)
        else None,
        _finding("ramp_up", f"No verdict during ramp-up: {moving}", evidence=times) if moving else None,
        _unattributed(paste, paste.profile),
        _outside(paste),
    ]


def _step_times(job: Job) -> tuple[Evidence, ...]:
    series = job.series("step_time")
    if series is None:
        return ()
    return (Evidence(text=f"{series.key} {series.finite()[-1]:g} s", origin=origin_of(series)),)


def _unattributed(paste: Paste, profile: Profile) -> Finding | None:
    """Time under no timer whose place is known, on the clock that is the step."""
    trainer = profile.role(Role.TRAINER)
    if trainer is None or not trainer.phases or not trainer.wall_s > 0:
        return None
    frac, seconds = trainer.unattributed_s() / trainer.wall_s, said(trainer.unattributed_s())
    if not LARGE_UNATTRIBUTED_FRAC <= frac <= 1:
        return None
    others = _unknown_timers(paste)
    if not others:
        title = f"{frac:.0%} of the step is under no timer ({seconds}): what it goes to cannot be said"
        return _finding("unattributed_time", title)
    told = ", ".join(f"`{series.key}` {said(mean_of(series))}" for series in others)
    title = f"{frac:.0%} of the step ({seconds}) is under no timer that this tool knows; the log has {told} besides"
    facts = tuple(Evidence(text=f"{s.key} {mean_of(s):.6g} s", origin=origin_of(s)) for s in others)
    return _finding("unattributed_time", title, evidence=facts)


def _unknown_timers(paste: Paste) -> list[Series]:
    """Timers that the readers left alone, as they may be nested, the longest first."""
    named = [n.text.removeprefix(UNREAD).split(", ") for n in paste.notes if n.text.startswith(UNREAD)]
    found = [series for key in named[0] if (series := paste.get_series(key)) is not None] if named else []
    timed = [series for series in found if series.finite() and mean_of(series) > 0]
    return sorted(timed, key=mean_of, reverse=True)[:MAX_UNKNOWN]


def _is_warm_up(paste: Paste) -> bool:
    steps = [p.step for s in paste.series for p in s.points]
    numbered = [step for step in steps if step is not None]
    first = 0 if 0 in numbered else 1
    return bool(numbered) and len(numbered) == len(steps) and max(numbered) < first + WARMUP_STEPS


def _reward(job: Job) -> Finding | None:
    has_steps = job.paste.num_steps_seen > 0 and any(not _is_clock(s.name) for s in job.paste.series)
    if not has_steps or _has_reward(job):
        return None
    return _finding(
        "no_reward", "No reward in the log: whether a change keeps it cannot be checked, so none can be accepted"
    )


def _unresolved(paste: Paste) -> Finding | None:
    """Settings whose value is only a formula here: nothing may be concluded from them."""
    open_settings = [s for s in paste.settings if not s.is_resolved]
    if not open_settings:
        return None
    names = ", ".join(f"`{s.key}={s.text}`" for s in open_settings[:3])
    more = f" and {len(open_settings) - 3} more" if len(open_settings) > 3 else ""
    title = f"Values that stay unresolved in this input are not judged: {names}{more}"
    facts = tuple(Evidence(text=f"{s.key}={s.text}", origin=s.origin) for s in open_settings[:3])
    return _finding("unresolved_settings", title, evidence=facts)


def _has_reward(job: Job) -> bool:
    if job.profile is not None and job.profile.health.reward_mean is not None:
        return True
    names = [f"{s.name} {s.key}".lower() for s in job.paste.series]
    return any(word in name for name in names for word in _REWARDS if "time" not in name)


def _is_clock(name: str) -> bool:
    return "time" in name or "timing" in name or name.startswith("perf") or "memory" in name


def _seen(bars: Sequence[Excerpt]) -> tuple[Evidence, ...]:
    return tuple(Evidence(text=bar.text, origin=bar.origin) for bar in bars[-2:])


def _outside(paste: Paste) -> Finding | None:
    """Work that is timed and stands in no step time, such as a validation between two steps."""
    if not paste.phases:
        return None
    told = "; ".join(f"{p.phase} {said(p.seconds.value)} (in {p.seconds.n} of the steps)" for p in paste.phases)
    return _finding(
        "outside_step", f"Not part of the step time, as it runs after the step: {told}", evidence=_phases(paste)
    )


def _phases(paste: Paste) -> tuple[Evidence, ...]:
    longest = sorted(paste.phases, key=lambda phase: -phase.seconds.value)[:MAX_PHASES]
    return tuple(
        Evidence(
            text=f"{phase.origin.key if phase.origin else phase.phase} {phase.seconds.value:.6g} s", origin=phase.origin
        )
        for phase in longest
    )


def _finding(
    code: str, title: str, *, evidence: tuple[Evidence, ...] = (), remedies: tuple[Remedy, ...] = ()
) -> Finding:
    return Finding(
        code=code,
        kind=FindingKind.NO_CLAIM,
        severity=Severity.INFO,
        title=title,
        evidence=evidence,
        remedies=remedies,
    )
