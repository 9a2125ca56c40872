"""A timer that holds far more than what it is named after: `gen` of 26 s with 0.8 s in the engine.

The surprise: both numbers are right. Between them lie waking, weights, scheduling or tools, and as no timer names
them, faster generation would win back only the small number.
"""

from dataclasses import dataclass
from typing import final

from steptune.core.finding import Evidence, Finding, FindingKind, Severity
from steptune.core.paste import Series
from steptune.core.phase import Phase, SpanKind
from steptune.core.profile import Origin, Profile
from steptune.diagnose.durations import said
from steptune.diagnose.facts import busy_s, share_threshold
from steptune.diagnose.job import Job, mean_of, origin_of

ENGINE_KEYS = ("timing_s/generation_timing/max", "timing_s/generate_sequences/max", "timing_s/generate_sequences")
"""Seconds of the slowest engine in generation, else of the mean one (verl before the agent loop)."""

SAMPLE_KEYS = tuple(f"timing_s/agent_loop/{part}/max" for part in ("generate_sequences", "tool_calls", "compute_score"))
"""Slowest sample in each part of verl's agent loop: their sum is at least what the slowest sample took."""

MIN_GAP_FRAC = 0.3
"""Part of the timer outside what is known of it, from which it is said. Prior."""

MOST_FRAC = 0.5
"""Part of the timer outside, from which advice for the engine is beside the point."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Gap:
    """Example: ``Gap(parent_s=25.6, known_s=0.8, ...)``: 24.8 s of the timer go elsewhere."""

    parent_s: float
    known_s: float
    children: tuple[Series, ...]
    origin: Origin | None

    @property
    def seconds(self) -> float:
        """Seconds of the timer outside its known parts."""
        return self.parent_s - self.known_s

    @property
    def known_frac(self) -> float:
        """Part of the timer that is known to be generation."""
        return self.known_s / self.parent_s

    @property
    def is_most(self) -> bool:
        """Whether most of the timer is elsewhere."""
        return self.seconds > MOST_FRAC * self.parent_s


def rollout_gap(job: Job) -> Gap | None:
    """Return what the rollout's timer holds besides generation; None where it is small or no part is timed."""
    profile = job.profile
    if profile is None or profile.schedule == "async":
        return None
    children = _children(job)
    known_s, parent_s = sum(mean_of(series) for series in children), busy_s(profile, Phase.ROLLOUT)
    if not 0 < known_s < (1 - MIN_GAP_FRAC) * parent_s:
        return None
    if parent_s - known_s < share_threshold(profile) * profile.step_time.value:
        return None
    return Gap(parent_s=parent_s, known_s=known_s, children=children, origin=_origin(profile))


def timer_gap(job: Job) -> Finding | None:
    """Name the gap between the rollout's timer and what is timed inside it."""
    gap = rollout_gap(job)
    if gap is None or job.profile is None:
        return None
    parent = f"`{gap.origin.key}`" if gap.origin is not None else "the rollout's timer"
    inside = " + ".join(f"`{series.key}`" for series in gap.children)
    share = gap.seconds / job.profile.step_time.value
    title = (
        f"Only {said(gap.known_s)} of the {said(gap.parent_s)} of {parent} are in {inside}: {said(gap.seconds)} "
        f"({share:.0%} of the step) go elsewhere inside it (waking, weights, scheduling), under no timer"
    )
    others = [s for key in ENGINE_KEYS if (s := job.series(key)) is not None and s not in gap.children]
    facts = tuple(Evidence(text=f"{s.key} {mean_of(s):.4g} s", origin=origin_of(s)) for s in (*gap.children, *others))
    return Finding(
        code="timer_gap",
        kind=FindingKind.NO_CLAIM,
        severity=Severity.WARNING,
        title=title,
        evidence=(Evidence(text=f"{parent.strip('`')} {gap.parent_s:.4g} s", origin=gap.origin), *facts),
    )


def _children(job: Job) -> tuple[Series, ...]:
    samples = [job.series(key) for key in SAMPLE_KEYS]
    if samples[0] is not None:
        return tuple(series for series in samples if series is not None and mean_of(series) > 0)
    engine = job.series(*ENGINE_KEYS)
    return () if engine is None else (engine,)


def _origin(profile: Profile) -> Origin | None:
    spans = [p for r in profile.roles for p in r.phases if p.phase == Phase.ROLLOUT.value and p.kind is SpanKind.BUSY]
    return next((p.origin for p in spans if p.origin is not None), None)
