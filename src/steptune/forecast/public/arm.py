"""The step model on public rows: raw phases by mechanism, scaled to what the measured row of the job shows.

Surprise: what was measured is kept by phase where the row states phases, and one common factor fills the rest, so that
the forecast of the measured row is its own step. The ratio to another row is then drawn towards *no change*.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from steptune.forecast.public.job import CannotReadError, Job, read
from steptune.forecast.public.parameters import FITTED, Free
from steptune.forecast.public.schedule import PHASES, Phase, Phases, hides_logprobs, phases, step_s
from steptune.published.public_run import PublicRun

FACTOR_BOUNDS = (0.05, 20.0)
"""The common factor of phases stays within these where no phase was measured."""

REST_BOUND = 2.5
"""Factor of the phases that were not measured over the mean of those that were, at most, or its inverse."""

EXPOSED_FRAC = 0.08
"""Exposed wait over the step above which a batch that is generated whole is known to be the longer side."""

EXPOSED_STEADY_FRAC = 0.4
"""The same where engines never drain: hand-over and the staleness bound make trainers wait too."""

BISECTIONS = 40


@dataclass(frozen=True, slots=True)
class PublicForecaster:
    """Forecasts public rows. Example: ``PublicForecaster(free=fit(rows))``."""

    free: Free = FITTED
    name: str = "step model"

    def step_s(self, run: PublicRun, *, measured: PublicRun | None) -> float | None:
        """Return seconds per step of ``run``, which states no outcome; None where it cannot be read."""
        try:
            job = _read(run, measured)
            raw = phases(job, self.free)
            if measured is None or measured.step_time_s is None:
                return step_s(job, raw, self.free)
            base = _read(measured, run)
        except CannotReadError:
            return None
        factors, residual = calibrate(base, phases(base, self.free), measured, self.free)
        log_ratio = math.log(step_s(job, raw.scaled(factors), self.free) * residual / measured.step_time_s)
        return measured.step_time_s * math.exp(self.free.trust * log_ratio)

    def refusal(self, run: PublicRun, *, measured: PublicRun | None) -> str | None:
        """Return why a row is refused; None where it is answered."""
        try:
            _read(run, measured)
            if measured is not None:
                _read(measured, run)
        except CannotReadError as error:
            return str(error)
        return None


def calibrate(base: Job, raw: Phases, measured: PublicRun, free: Free) -> tuple[dict[Phase, float], float]:
    """Return the factor of each phase, and the factor that is left on the step."""
    known = _known_s(base, measured)
    factors: dict[Phase, float] = {name: known[name] / getattr(raw, name) for name in known}
    assert measured.step_time_s is not None, measured.id

    def with_rest(rest: float) -> dict[Phase, float]:
        return {name: factors.get(name, rest) for name in PHASES}

    rest = _mean(list(factors.values()))
    if not (base.is_steady and "train" in known):  # there, hand-over and staleness bounds make the wait, not generation
        rest = _solved(lambda tried: step_s(base, raw.scaled(with_rest(tried)), free), measured.step_time_s, rest)
    found = with_rest(1.0 if rest is None else rest)
    return found, measured.step_time_s / step_s(base, raw.scaled(found), free)


def _solved(step_of: Callable[[float], float], wanted_s: float, usual: float | None) -> float | None:
    """Return the factor at which the step is the one wanted; ``usual`` where none within bounds makes it."""
    low, high = FACTOR_BOUNDS if usual is None else (usual / REST_BOUND, usual * REST_BOUND)
    if not step_of(low) <= wanted_s <= step_of(high):
        return usual
    for _ in range(BISECTIONS):
        mid = math.sqrt(low * high)
        low, high = (mid, high) if step_of(mid) < wanted_s else (low, mid)
    return low


def _mean(factors: list[float]) -> float | None:
    return math.exp(math.fsum(map(math.log, factors)) / len(factors)) if factors else None


def _known_s(base: Job, measured: PublicRun) -> dict[Phase, float]:
    known: dict[Phase, float] = {}
    if measured.train_s:
        known["train"] = measured.train_s
    passes = (measured.logprob_s or 0.0) + (measured.ref_s or 0.0)
    if measured.logprob_s and passes:
        known["logprob"] = passes
    own_s = measured.other_settings.get("generate_sequences_s")
    if isinstance(own_s, int | float) and own_s > 0:  # engines alone; what else the row calls generation is hand-over
        known["generation"] = float(own_s)
    elif measured.full_gen_s:
        known["generation"] = measured.full_gen_s
    elif _is_rollout_bound(base, measured):
        assert measured.exposed_wait_s is not None, measured.id
        hidden = 0.0 if hides_logprobs(base) else known.get("logprob", 0.0)
        known["generation"] = known.get("train", 0.0) + hidden + measured.exposed_wait_s
    return known


def _is_rollout_bound(base: Job, measured: PublicRun) -> bool:
    wait, step = measured.exposed_wait_s, measured.step_time_s
    least = EXPOSED_STEADY_FRAC if base.is_steady else EXPOSED_FRAC
    return wait is not None and step is not None and bool(measured.train_s) and wait > least * step


def _read(run: PublicRun, like: PublicRun | None) -> Job:
    return _cached(_Key(run), None if like is None else _Key(like))


@dataclass(frozen=True, slots=True)
class _Key:
    """A row by identity of its text: rows hold dictionaries and cannot be hashed themselves."""

    run: PublicRun

    def __hash__(self) -> int:
        return hash(self.run.id)


@lru_cache(maxsize=4096)
def _cached(run: _Key, like: _Key | None) -> Job:
    return read(run.run, None if like is None else like.run)
