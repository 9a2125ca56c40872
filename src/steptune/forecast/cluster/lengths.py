"""Typed lengths into work: per sample, quantiles, or a mean with its maximum and clipping.

Per sample the profile's own groups are replayed, which keeps siblings alike and the tail as it is. Quantiles and
summaries must be drawn: the step is then known less well, and `Work.length_log_sd` says so. What would narrow it is
always the same: lengths per sample, and more of them. Samples too are a draw: two hundred groups with a long tail know
their mean to 5 %, and later steps are made of other groups.
"""

import itertools
import math
import random
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from steptune.core.errors import explain
from steptune.core.profile import SampledLengths, SummaryLengths
from steptune.forecast.cluster.work import GroupShape, RowShape, Work
from steptune.forecast.curve import ForecastError

QUANTILE_LOG_SD = 0.05
"""Log error of a step whose lengths are drawn from quantiles: the tail beyond the last is a guess. Prior."""

SUMMARY_LOG_SD = 0.12
"""Log error of a step whose lengths are drawn from mean, maximum and clipping. Prior."""

SIBLING_FRAC = 0.25
"""Part of the variance of log lengths that a group shares. Prior (docs/design/virtual.md draws the same way)."""

BISECTIONS = 60
"""Halvings of the bracket of a lognormal's centre: far below one token."""

UNKNOWN_LOG_SPREAD = 0.6
"""Log standard deviation of lengths where the maximum does not tell. Prior: reasoning jobs measured 0.3 to 1.3."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Quantiles:
    """Lengths as a histogram gives them: ``Quantiles(fracs=(0.0, 0.5, 0.99, 1.0), tokens=(8, 400, 3100, 4096))``."""

    fracs: tuple[float, ...]
    """From 0 to 1, increasing."""
    tokens: tuple[float, ...]
    """Never falling."""

    def at(self, frac: float) -> float:
        """Return the length below which that part lies, on the line between its neighbours."""
        right = min(max(bisect_right(self.fracs, frac), 1), len(self.fracs) - 1)
        f0, f1, t0, t1 = self.fracs[right - 1], self.fracs[right], self.tokens[right - 1], self.tokens[right]
        return t0 + (t1 - t0) * (frac - f0) / (f1 - f0)


def work_from_samples(lengths: SampledLengths, *, group_size: int, max_completion: int | None = None) -> Work:
    """Replay the profile's rollouts, groups kept whole.

    Raises:
        ForecastError: the samples do not make one whole step of whole groups.
    """
    per_step = lengths.rollouts_per_step
    if group_size < 1 or per_step < 1 or per_step % group_size or len(lengths.completion) < per_step:
        raise ForecastError(
            explain(
                "the sampled lengths do not make whole steps",
                got=f"{len(lengths.completion)} rollouts, {per_step} a step, groups of {group_size}",
                allowed="at least one step, a whole number of groups in each",
                hint="take the lengths of whole steps in the order of the prompts",
            )
        )
    steps: list[tuple[GroupShape, ...]] = []
    for start in range(0, len(lengths.completion) - per_step + 1, per_step):
        firsts = range(start, start + per_step, group_size)
        steps.append(tuple(_group(lengths.prompt[f], lengths.completion[f : f + group_size]) for f in firsts))
    longest = max(lengths.completion)
    return Work(
        steps=tuple(steps),
        max_completion=max(longest, max_completion or longest),
        length_log_sd=sampled_log_sd([group for step in steps for group in step]),
        num_logged_groups=sum(map(len, steps)),
    )


def sampled_log_sd(groups: Sequence[GroupShape]) -> float:
    """Return the standard deviation of the log of a group's mean tokens, known from so many groups.

    Spread between groups over the root of their number; rows are not counted, for siblings are alike. One group tells
    nothing about others: `SUMMARY_LOG_SD`.
    """
    tokens = [group.num_tokens for group in groups]
    if len(tokens) < 2 or not any(tokens):
        return SUMMARY_LOG_SD
    return stdev(tokens) / fmean(tokens) / math.sqrt(len(tokens))


def work_from_quantiles(
    quantiles: Quantiles, *, prompt: int, groups_per_step: int, group_size: int, num_steps: int, seed: int
) -> Work:
    """Draw steps from quantiles; siblings share part of their spread. Deterministic by seed."""
    draw = random.Random(seed)
    steps = tuple(
        tuple(_group(prompt, _drawn(draw, group_size, quantiles)) for _ in range(groups_per_step))
        for _ in range(num_steps)
    )
    return Work(steps=steps, max_completion=math.ceil(quantiles.tokens[-1]), length_log_sd=QUANTILE_LOG_SD)


def quantiles_from_summary(lengths: SummaryLengths, *, limit: int | None) -> Quantiles:
    """Return clipped lognormal quantiles that keep the stated mean, maximum and clipped part.

    Raises:
        ForecastError: the mean is not known, or not between 0 and the maximum.
    """
    mean, clipped = lengths.completion_mean, lengths.clipped_frac or 0.0
    top = lengths.completion_max or limit
    if mean is None or not 0 < mean <= (top or math.inf) or not 0 <= clipped < 1:
        raise ForecastError(
            explain(
                "the length summary cannot be drawn from",
                got=f"mean {mean}, maximum {top}, clipped part {clipped}",
                allowed="a positive mean up to the maximum, a part below 1",
                hint="log completion lengths per sample",
            )
        )
    top = top or mean * math.exp(3 * UNKNOWN_LOG_SPREAD)
    fracs = tuple(i / 64 for i in range(65))
    low, high = 0.0, math.log(top)
    for _ in range(BISECTIONS):
        mu = (low + high) / 2
        is_short = _mean(_lognormal(fracs, mu, _spread(mu, top), top, clipped)) < mean
        low, high = (mu, high) if is_short else (low, mu)
    return Quantiles(fracs=fracs, tokens=_lognormal(fracs, low, _spread(low, top), top, clipped))


def work_from_summary(
    lengths: SummaryLengths, *, groups_per_step: int, group_size: int, limit: int | None, num_steps: int, seed: int
) -> Work:
    """Draw steps from mean, maximum and clipping; the widest interval of the three."""
    drawn = work_from_quantiles(
        quantiles_from_summary(lengths, limit=limit),
        prompt=round(lengths.prompt_mean or 0),
        groups_per_step=groups_per_step,
        group_size=group_size,
        num_steps=num_steps,
        seed=seed,
    )
    return Work(steps=drawn.steps, max_completion=drawn.max_completion, length_log_sd=SUMMARY_LOG_SD)


def _group(prompt: int, completions: Sequence[int]) -> GroupShape:
    return GroupShape(prompt=prompt, rows=tuple(RowShape(tokens=n) for n in completions))


def _drawn(draw: random.Random, group_size: int, quantiles: Quantiles) -> list[int]:
    own = draw.gauss(0, math.sqrt(SIBLING_FRAC))
    z = [own + draw.gauss(0, math.sqrt(1 - SIBLING_FRAC)) for _ in range(group_size)]
    return [max(1, round(quantiles.at(0.5 * math.erfc(-x / math.sqrt(2))))) for x in z]


def _spread(mu: float, top: float) -> float:
    """Return a spread that puts the maximum about three deviations out, within what jobs show."""
    return min(max((math.log(top) - mu) / 3, 0.05), 2 * UNKNOWN_LOG_SPREAD)


def _lognormal(fracs: Sequence[float], mu: float, spread: float, top: float, clipped: float) -> tuple[float, ...]:
    return tuple(
        top if f >= 1 - clipped or f == 1.0 else min(top, max(1.0, math.exp(mu + spread * _z(f)))) for f in fracs
    )


def _z(frac: float) -> float:
    """Standard normal quantile, Hastings' approximation (Abramowitz and Stegun 26.2.23, error below 4.5e-4)."""
    if frac == 0.5:
        return 0.0
    t = math.sqrt(-2 * math.log(max(min(frac, 1 - frac), 1e-6)))
    z = t - (2.515517 + 0.802853 * t + 0.010328 * t * t) / (1 + 1.432788 * t + 0.189269 * t * t + 0.001308 * t**3)
    return z if frac > 0.5 else -z


def _mean(tokens: Sequence[float]) -> float:
    """Mean of the piecewise linear quantile function: the trapezoid rule is exact."""
    return math.fsum((a + b) / 2 for a, b in itertools.pairwise(tokens)) / (len(tokens) - 1)
