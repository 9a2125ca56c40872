"""What a job's finished trials teach about its next forecast: a correction and a width, by the knobs that they share.

A forecast's log error is taken as normal around 0 with the deviation that its own forecaster states. Two changes of one
job share part of it (Gaussian process regression, Rasmussen and Williams 2006, section 2.2)::

    covariance(i, j) = common² + sd_i sd_j x alike(i, j)     alike: shared moves over the root of both numbers
    deviations       x the root of (prior + sum of squared standard scores) / (prior + trials)

*common* is what every ratio of a job shares: its incumbent was not quite the same when it was profiled. Surprise: a
change that shares nothing with what was tried keeps its own correction at *common* alone; a shared knob with another
value counts half.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from prospective.job import Moves
from steptune.forecast.decode.fit import solve

SAME_KNOB = 0.5
"""What a knob that both changes move, to different values, counts beside one moved to the same value. Prior."""

SCALE_TRIALS = 4.0
"""Trials' worth of belief in the stated deviations. Prior."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Expected:
    """A change as its forecaster sees it: ``Expected(moves={"bf16": True}, log_sd=0.06)``."""

    moves: Moves
    """Those that matter to what is forecast."""
    log_sd: float
    """Stated deviation of the log error."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Tried:
    """A finished trial: ``Tried(expected=..., log_error=0.04)``; measured over forecast, before any correction."""

    expected: Expected
    log_error: float


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Learnt:
    """``Learnt(log_correction=0.03, log_sd=0.04, noise=0.03)``: what to add to the log, and what is doubtful."""

    log_correction: float
    log_sd: float
    """Of the forecast."""
    noise: float
    """Of a trial's ratio: larger than told where trials missed by more than was stated."""


def learn(tried: Sequence[Tried], wanted: Expected, *, common: float, noise: float) -> Learnt:
    """Return what the trials say of ``wanted``. ``common`` and ``noise`` (of a measured ratio) are log deviations."""
    scale = _scale(tried, common=common, noise=noise)
    own = scale**2 * (common**2 + wanted.log_sd**2)
    if not tried:
        return Learnt(log_correction=0.0, log_sd=math.sqrt(own), noise=noise)
    seen = [one.expected for one in tried]
    kernel = [
        [scale**2 * _covariance(a, b, common) + (noise**2 if i == j else 0.0) for j, b in enumerate(seen)]
        for i, a in enumerate(seen)
    ]
    towards = [scale**2 * _covariance(one, wanted, common) for one in seen]
    weights = solve(kernel, towards)
    correction = math.fsum(weight * one.log_error for weight, one in zip(weights, tried, strict=True))
    left = own - math.fsum(weight * part for weight, part in zip(weights, towards, strict=True))
    return Learnt(log_correction=correction, log_sd=math.sqrt(max(left, 0.0)), noise=noise * max(scale, 1.0))


def _scale(tried: Sequence[Tried], *, common: float, noise: float) -> float:
    scores = [one.log_error**2 / (common**2 + noise**2 + one.expected.log_sd**2) for one in tried]
    return math.sqrt((SCALE_TRIALS + math.fsum(scores)) / (SCALE_TRIALS + len(scores)))


def _covariance(a: Expected, b: Expected, common: float) -> float:
    return common**2 + a.log_sd * b.log_sd * _alike(a.moves, b.moves)


def _alike(a: Moves, b: Moves) -> float:
    if a == b:
        return 1.0
    shared = sum(1.0 if a[knob] == b[knob] else SAME_KNOB for knob in a.keys() & b.keys())
    return shared / math.sqrt(len(a) * len(b)) if a and b else 0.0
