"""What finished trials teach about the model's error, one shrunk coefficient per move.

Every trial gives one log error r = ln(measured ratio / raw forecast ratio). It is explained as a sum of
one coefficient per move of its change, with a prior of mean 0 and variance v for each, and noise s²:
ridge regression, or the posterior of a Gaussian linear model (Bishop 2006, section 3.3)::

    mean of move m    v · 1_mᵀ K⁻¹ r           K = v · M + s² I,   M_ij = moves that trials i and j share
    covariance        v · δ_mn - v² · 1_mᵀ K⁻¹ 1_n                 (1_m)_i = 1 if trial i has move m

So the two things a tuner wants come from one formula: a correction for candidates that share moves with
what was tried, and a narrower interval for them. v itself is learnt, shrunk towards its prior: a model that
missed widens its intervals, a model that hit narrows them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from steptune.core.change import Change
from steptune.core.event import LearntFrom
from steptune.core.knob import KnobValue
from steptune.core.profile import NoiseFloor
from steptune.forecast.solve import dot, solve

PRIOR_MOVE_SD = 0.07
"""Standard deviation of the model's log error of a single move that changes the whole step, before any trial. Prior:
four such moves have one of 10 %, a median error of 7 %; first forecasts of three sessions of examples/math-dense.toml
were off by 5 to 12 % in the median (docs/LAB.md, 2026-11-30)."""

PRIOR_TRIALS = 4.0
"""Trials' worth of belief in PRIOR_MOVE_SD against the errors seen. Prior, to be replaced by bench."""

UNKNOWN_NOISE_SD = 0.05
"""Standard deviation of a measured log ratio where no noise floor was measured (a pasted log). Prior."""

MIN_NOISE_SD = 0.005
"""Floor of the same: two A/A launches that happen to agree do not prove a noiseless machine. Prior."""

MoveKey = tuple[str, KnobValue]
"""Knob and its new value."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Residuals:
    """Posterior of the log error per move: ``mean={("layout", "packed"): -0.02}``."""

    mean: dict[MoveKey, float]
    covariance: dict[tuple[MoveKey, MoveKey], float]
    prior_var: float
    """Variance of a move that no trial had."""
    trials: tuple[str, ...]
    """Signatures of the trials learnt from."""

    def log_correction(self, change: Change) -> float:
        """Return what to add to the log of the raw ratio."""
        return self.correction_of(move_keys(change))

    def variance(self, change: Change) -> float:
        """Return the posterior variance of the model's log error for a change."""
        return self.variance_of(move_keys(change))

    def correction_of(self, keys: Sequence[MoveKey]) -> float:
        """Return the sum of these moves' mean errors."""
        return math.fsum(self.mean.get(key, 0.0) for key in keys)

    def variance_of(self, keys: Sequence[MoveKey]) -> float:
        """Return the posterior variance of the sum of these moves' errors."""
        seen = [key for key in keys if key in self.mean]
        joint = math.fsum(self.covariance[a, b] for a in seen for b in seen)
        # rounding can take a well-known sum of moves a hair below zero
        return max(0.0, joint) + self.prior_var * (len(keys) - len(seen))

    def num_used(self, change: Change) -> int:
        """Return how many learnt coefficients the change draws on."""
        return sum(key in self.mean for key in move_keys(change))


def move_keys(change: Change) -> tuple[MoveKey, ...]:
    """Return what the residuals tell moves apart by."""
    return tuple((move.knob, move.new) for move in change.moves)


def noise_sd(noise: NoiseFloor | None) -> float:
    """Return the standard deviation of a measured log ratio of two launches."""
    if noise is None or noise.num_steps < 1:
        return UNKNOWN_NOISE_SD
    sd = math.hypot(noise.between_launch_frac, noise.within_launch_cv * math.sqrt(2 / noise.num_steps))
    return max(sd, MIN_NOISE_SD) if math.isfinite(sd) else UNKNOWN_NOISE_SD


def learn(history: Sequence[LearntFrom], noise: float, prior_sd: float = PRIOR_MOVE_SD) -> Residuals:
    """Fit the residuals. Trials without moves or with a ratio that is not a positive number teach nothing."""
    errors = [(trial, error) for trial in history if trial.change.moves and (error := _error(trial)) is not None]
    used, error_S = [trial for trial, _ in errors], [error for _, error in errors]
    keys_S = [frozenset(move_keys(trial.change)) for trial in used]
    var = _move_variance(error_S, keys_S, prior_sd)
    kernel_SS = [
        [var * len(a & b) + (noise**2 if i == j else 0.0) for j, b in enumerate(keys_S)] for i, a in enumerate(keys_S)
    ]
    keys = list(dict.fromkeys(key for trial in used for key in move_keys(trial.change)))
    has_S = {key: [1.0 if key in trial else 0.0 for trial in keys_S] for key in keys}
    weight_S = solve(kernel_SS, error_S)
    mean = {key: var * dot(has_S[key], weight_S) for key in keys}
    solved = {key: solve(kernel_SS, has_S[key]) for key in keys}
    covariance = {(a, b): (var if a == b else 0.0) - var**2 * dot(has_S[a], solved[b]) for a in keys for b in keys}
    trials = tuple(trial.change.signature for trial in used)
    return Residuals(mean=mean, covariance=covariance, prior_var=var, trials=trials)


def _error(trial: LearntFrom) -> float | None:
    """Return a trial's log error; None where a ratio is missing or no positive number."""
    measured, raw = trial.measured_ratio, trial.raw_forecast_ratio
    if measured is None or not all(math.isfinite(r) and r > 0 for r in (measured, raw)):
        return None
    return math.log(measured / raw)


def _move_variance(error_S: list[float], keys_S: list[frozenset[MoveKey]], prior_sd: float) -> float:
    seen = math.fsum(error**2 / len(keys) for error, keys in zip(error_S, keys_S, strict=True))
    return (PRIOR_TRIALS * prior_sd**2 + seen) / (PRIOR_TRIALS + len(error_S))
