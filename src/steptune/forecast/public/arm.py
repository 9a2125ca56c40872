"""The step model on public rows: raw phases by mechanism, scaled to what the measured row of the job shows.

Surprise: what was measured is kept by phase where the row states phases, and one common factor fills the rest, so that
the forecast of the measured row is its own step. The ratio to another row is then drawn towards *no change*.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

from steptune.forecast.public.job import CannotReadError, Job, read
from steptune.forecast.public.parameters import FITTED, Free
from steptune.forecast.public.schedule import PHASES, Phase, Phases, hides_logprobs, phases, step_s
from steptune.published.public_run import PublicRun

FACTOR_BOUNDS = (0.05, 20.0)
"""The common factor of phases stays within these where no phase was measured."""

REST_BOUND = 2.5
"""Factor of the phases that were not measured, at most, or its inverse, where others were. On side `fit` the factor of
training says nothing of generation's: 0.58, 0.57 and 0.40 beside 1.11, 0.66 and 1.08 in verl's three documents."""

EXPOSED_FRAC = 0.08
"""Exposed wait over the step above which a batch that is generated whole is known to be the longer side."""

EXPOSED_STEADY_FRAC = 0.4
"""The same where engines never drain: hand-over and the staleness bound make trainers wait too."""

BISECTIONS = 40

TRAIN_SHARES = (0.25, 0.5, 0.75)
"""Parts of the devices that may train where nobody says how they are split."""

MOST_SPAN = 1.5
"""Range of the forecast ratio over those splits above which the split decides more than what is stated: refused. Chosen
before any figure with it: three times the 15 % that a ratio is aimed at (1.15 cubed is 1.52)."""

SPLIT_DECIDES = "how the devices are split decides and is not stated; say how many train and how many generate"


@dataclass(frozen=True, slots=True)
class PublicForecaster:
    """Forecasts public rows. Example: ``PublicForecaster(free=fit(rows))``."""

    free: Free = FITTED
    name: str = "step model"

    def step_s(self, run: PublicRun, *, measured: PublicRun | None) -> float | None:
        """Return seconds per step of ``run``, which states no outcome; None where it cannot be read."""
        try:
            job = _read(run, measured)
            if measured is None or measured.step_time_s is None:
                return step_s(job, phases(job, self.free), self.free)
            base = _read(measured, run)
            if _span(job, base, measured, self.free) > MOST_SPAN:
                raise CannotReadError(SPLIT_DECIDES)
        except CannotReadError:
            return None
        return measured.step_time_s * math.exp(self.free.trust * _log_ratio(job, base, measured, self.free))

    def refusal(self, run: PublicRun, *, measured: PublicRun | None) -> str | None:
        """Return why a row is refused; None where it is answered."""
        try:
            job = _read(run, measured)
            if measured is not None:
                base = _read(measured, run)
                if measured.step_time_s is not None and _span(job, base, measured, self.free) > MOST_SPAN:
                    return SPLIT_DECIDES
        except CannotReadError as error:
            return str(error)
        return None


def _log_ratio(job: Job, base: Job, measured: PublicRun, free: Free) -> float:
    assert measured.step_time_s is not None, measured.id
    factors, residual = calibrate(base, phases(base, free), measured, free)
    raw = phases(job, free).scaled(factors)
    return math.log(step_s(job, raw, free) * residual / measured.step_time_s)


def _span(job: Job, base: Job, measured: PublicRun, free: Free) -> float:
    """Return the largest over the smallest ratio that splits of the devices make; 1 where the split is stated."""
    if "split" not in (*job.assumed, *base.assumed):
        return 1.0
    tried = [_log_ratio(_split(job, share), _split(base, share), measured, free) for share in TRAIN_SHARES]
    return math.exp(max(tried) - min(tried))


def _split(job: Job, share: float) -> Job:
    """Return the job with another part of its devices in training; as it is where the split is stated or shared."""
    if "split" not in job.assumed or job.is_shared:
        return job
    total = job.num_train + job.num_rollout
    train = max(1.0, share * total)
    dp = max(1.0, job.dp * train / job.num_train)
    return replace(job, num_train=train, num_rollout=max(1.0, total - train), dp=dp)


def calibrate(base: Job, raw: Phases, measured: PublicRun, free: Free) -> tuple[dict[Phase, float], float]:
    """Return the factor of each phase, and the factor that is left on the step."""
    known = _known_s(base, measured)
    factors: dict[Phase, float] = {name: known[name] / getattr(raw, name) for name in known}
    assert measured.step_time_s is not None, measured.id

    def with_rest(rest: float) -> dict[Phase, float]:
        return {name: factors.get(name, rest) for name in PHASES}

    rest = 1.0  # what was not measured keeps the model's scale: one phase's factor says little of another's
    if not (base.is_steady and "train" in known):  # there, hand-over and staleness bounds make the wait, not generation
        bounds = (1 / REST_BOUND, REST_BOUND) if known else FACTOR_BOUNDS
        rest = _solved(lambda tried: step_s(base, raw.scaled(with_rest(tried)), free), measured.step_time_s, bounds)
    found = with_rest(rest)
    return found, measured.step_time_s / step_s(base, raw.scaled(found), free)


def _solved(step_of: Callable[[float], float], wanted_s: float, bounds: tuple[float, float]) -> float:
    """Return the factor at which the step is the one wanted; 1 where none within the bounds makes it."""
    low, high = bounds
    if not step_of(low) <= wanted_s <= step_of(high):
        return 1.0
    for _ in range(BISECTIONS):
        mid = math.sqrt(low * high)
        low, high = (mid, high) if step_of(mid) < wanted_s else (low, mid)
    return low


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
