"""The free parameters of the closed form, each a prior that fits shrink: log-normal, so that a factor stays a factor.

Surprise: most are priors and stay near them, for a public row states a handful of numbers. `Free.listed` prints how
many there are and how far a fit moved each.
"""

import math
from dataclasses import dataclass, fields, replace


@dataclass(frozen=True, kw_only=True, slots=True)
class Free:
    """What a fit may move. Example: ``Free()`` is the priors' centres, ``Free(decode=0.5)`` reads memory slower."""

    decode: float = 0.6
    """Fraction of the memory bandwidth that a decode step reaches."""
    launch_s: float = 0.008
    """Seconds a decode step takes beside memory and arithmetic: scheduling, sampling, launching."""
    train: float = 0.75
    """Fraction of the peak that training reaches where bandwidth is plentiful; see `training.reached_frac`."""
    experts: float = 0.6
    """Factor on it for mixtures of experts."""
    forward: float = 1.0
    """Efficiency of a log-probability pass over that of training."""
    micro_s: float = 0.05
    """Seconds a micro-batch costs beside its tokens, for 28 layers."""
    update_s: float = 1.0
    """Seconds an optimizer step costs beside its tokens."""
    shared: float = 1.3
    """Training time on shared devices over that on its own: states move in and out, less memory is left."""
    spread: float = 0.5
    """Part of the longest answer's excess that the slowest rank does not get rid of by balancing."""
    overlap: float = 0.1
    """Part of the shorter side that overlap does not hide."""
    switch: float = 1.0
    """Factor on the seconds of hand-over and everything that no phase covers."""
    trust: float = 0.85
    """Power of a forecast ratio: below 1 it is drawn towards *no change*."""

    def listed(self) -> str:
        """Return one line: how many parameters, and each with its prior."""
        rows = [f"{name} {getattr(self, name):.3g} (prior {getattr(PRIOR, name):.3g})" for name in NAMES]
        return f"{len(rows)} free parameters: " + ", ".join(rows)


LOG_SD = {
    "decode": 0.25,
    "launch_s": 0.4,
    "train": 0.25,
    "experts": 0.3,
    "forward": 0.25,
    "micro_s": 0.5,
    "update_s": 0.7,
    "shared": 0.15,
    "spread": 0.4,
    "overlap": 0.5,
    "switch": 0.5,
    "trust": 0.1,
}
"""Standard deviation of each logarithm: our doubt before any public row was read. Trainers print 15 to 45 % of the
peak, engines 50 to 80 % of the bandwidth and 4 to 12 ms a step."""

PRIOR = Free()
FITTED = Free(
    decode=0.6,
    launch_s=0.00977,
    train=0.75,
    experts=0.663,
    forward=0.905,
    micro_s=0.0515,
    update_s=1.0,
    shared=1.44,
    spread=0.553,
    overlap=0.0878,
    switch=0.97,
    trust=0.912,
)
"""Fitted on side `fit` of the public runs (58 ratios of 12 jobs, 24 phases of 5) on 2026-11-30, again after the mends
that docs/design/scoreboard.md names; `tests/forecast/public/test_public_fit.py` fits them once more."""

NAMES = tuple(field.name for field in fields(Free))


def moved(free: Free, name: str, log_step: float) -> Free:
    """Return the parameters with one multiplied by ``exp(log_step)``; `trust` stays at most 1."""
    value = getattr(free, name) * math.exp(log_step)
    return replace(free, **{name: min(1.0, value) if name in ("trust", "decode") else value})


def penalty(free: Free) -> float:
    """Return half the squared distance to the priors, in standard deviations."""
    return sum((math.log(getattr(free, name) / getattr(PRIOR, name)) / LOG_SD[name]) ** 2 for name in NAMES) / 2
