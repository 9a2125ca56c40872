"""Which phase a forecast missed: its seconds beside the measured ones, the largest miss first.

A step that was forecast 12 % too short says little; decode 0.20 s where 0.11 s were forecast says where to look. All
seconds are those of the trial: forecasts are scaled to the incumbent that ran beside the candidate, so a slow
afternoon is no error. Surprise: where roles overlap the misses of both do not add up to the step's own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import final

from steptune.core.records import Record

LEAST_FRAC = 0.01
"""Part of the step below which a phase's miss is not printed."""


@final
class PhaseMiss(Record):
    """One phase of one trial: ``PhaseMiss(phase="rollout:rollout", incumbent_s=0.29, measured_s=0.43, ...)``."""

    phase: str
    """``role:phase``."""
    incumbent_s: float
    """Busy seconds per step of the trial's incumbent; 0 where it has no such phase."""
    measured_s: float
    """Of the candidate."""
    forecast_s: float
    miss_frac: float
    """Forecast minus measured seconds, as a part of the candidate's measured step."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class TrialPhases:
    """What is compared: seconds per step by ``role:phase``, and the measured step of the candidate."""

    incumbent_s: Mapping[str, float]
    measured_s: Mapping[str, float]
    forecast_s: Mapping[str, float]
    step_s: float


def phase_misses(trial: TrialPhases) -> tuple[PhaseMiss, ...]:
    """Return every phase that was measured or forecast, the largest miss first."""
    names = sorted({*trial.measured_s, *trial.forecast_s})
    misses = [_miss(trial, name) for name in names]
    return tuple(sorted(misses, key=lambda miss: -abs(miss.miss_frac)))


def misses_text(trials: Mapping[str, Sequence[PhaseMiss]], *, least_frac: float = LEAST_FRAC) -> list[str]:
    """Return a table per trial, by title, of the phases missed by at least ``least_frac`` of the step."""
    return [
        line
        for title, misses in trials.items()
        for line in (title, *(_line(miss) for miss in misses if abs(miss.miss_frac) >= least_frac))
    ]


def summary_text(misses: Sequence[PhaseMiss]) -> list[str]:
    """Return the median miss, the worst one and the lean of each phase, as a table."""
    lines = ["phase                     trials  median |miss|   worst   lean   (parts of the measured step)"]
    for name in sorted({miss.phase for miss in misses}):
        own = [miss.miss_frac for miss in misses if miss.phase == name]
        worst = max(own, key=abs)
        lines.append(f"{name:<24}  {len(own):6}  {median(map(abs, own)):13.1%}  {worst:+6.1%}  {median(own):+6.1%}")
    return lines


def _miss(trial: TrialPhases, name: str) -> PhaseMiss:
    measured, forecast = trial.measured_s.get(name, 0.0), trial.forecast_s.get(name, 0.0)
    return PhaseMiss(
        phase=name,
        incumbent_s=trial.incumbent_s.get(name, 0.0),
        measured_s=measured,
        forecast_s=forecast,
        miss_frac=(forecast - measured) / trial.step_s,
    )


def _line(miss: PhaseMiss) -> str:
    return (
        f"    {miss.phase:<24} incumbent {miss.incumbent_s:7.4f} s  measured {miss.measured_s:7.4f} s  "
        f"forecast {miss.forecast_s:7.4f} s  {miss.miss_frac:+6.1%} of the step"
    )
