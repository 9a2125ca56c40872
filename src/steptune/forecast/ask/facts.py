"""What the step model must know of the work besides seconds: stated, given by the user, or a prior with alternatives.

A prior is asked again at its alternatives, and what the answer changes by goes into the interval. So every missing
fact has a price in percent, and the user sees which number to look up first.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from steptune.core.estimate import Source
from steptune.core.profile import Profile, SampledLengths, SummaryLengths
from steptune.forecast.cluster.totals import ROWS_TO_DOUBLE

PRIOR_GROUP_SIZE = (8, (4, 16))
"""Rollouts per prompt where nobody says, and what is asked beside it: the usual values of public recipes. Prior."""

PRIOR_PROMPTS = (64, (16, 256))
"""Prompts per step, likewise. Prior."""

PRIOR_MEAN_FRAC = (0.4, (0.15, 0.6))
"""Mean completion over the longest. Only the shape matters, as the seconds are measured. Of seven jobs on the fit side
of the public runs (published/data/public_split.csv) that state both: median 0.39, 0.06 to 0.56."""

PRIOR_MAX_OVER_MEAN = (6.0, (2.0, 12.0))
"""Longest completion over the mean. Prior."""

PRIOR_MAX_TOKENS = 4096
"""Longest completion where neither is known; it cancels, the shape does not."""

PRIOR_CLIPPED_FRAC = 0.1
"""Part of completions at the limit, asked beside none where the log does not say. Prior."""

ROWS_TO_DOUBLE_ASKED = (32.0, 512.0)
"""Rows at which an iteration takes twice as long, asked beside the prior: "tens to several hundreds"."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fact:
    """``Fact(name="group_size", value=8, unit="rollouts", source=FORECAST, where="prior", alternatives=(4, 16))``."""

    name: str
    value: float
    unit: str
    source: Source
    """MEASURED: the log states it or the user gave it; DERIVED; FORECAST: a prior."""
    where: str
    alternatives: tuple[float, ...] = ()
    """Other values that are as likely; empty where it is known."""


def work_facts(profile: Profile, given: Mapping[str, float]) -> dict[str, Fact]:
    """Return the facts by name."""
    known = {name: _stated(name, value, "given") for name, value in given.items()}
    for name, value in _of_log(profile).items():
        if value is not None:
            known.setdefault(name, _stated(name, value, "the log"))
    made = [
        *_lengths(known),
        _or_prior(known, "group_size", "rollouts", *PRIOR_GROUP_SIZE),
        Fact(
            name="rows_to_double",
            value=ROWS_TO_DOUBLE,
            unit="rows",
            source=Source.FORECAST,
            where="prior: rows of a replica at which an iteration takes twice as long",
            alternatives=ROWS_TO_DOUBLE_ASKED,
        ),
    ]
    facts = {fact.name: fact for fact in made}
    facts["prompts_per_step"] = _prompts(profile, known, facts)
    return facts


def _of_log(profile: Profile) -> dict[str, float | None]:
    work, lengths = profile.work, profile.lengths
    stated: dict[str, float | None] = {"prompts_per_step": work.prompts_per_step, "group_size": work.group_size}
    if isinstance(lengths, SampledLengths):
        count = len(lengths.completion)
        lengths = SummaryLengths(
            prompt_mean=sum(lengths.prompt) / count if count else None,
            completion_mean=sum(lengths.completion) / count if count else None,
            completion_max=max(lengths.completion, default=None),
        )
    longest = lengths.completion_max or work.max_completion_len
    return {
        **stated,
        "prompt_mean": lengths.prompt_mean,
        "completion_mean": lengths.completion_mean,
        "completion_max": longest,
        "clipped_frac": lengths.clipped_frac,
    }


def _lengths(known: Mapping[str, Fact]) -> list[Fact]:
    """Return mean, longest and clipped part of the completions, in an order in which each can rest on the last."""
    mean, longest = known.get("completion_mean"), known.get("completion_max")
    if longest is None:
        ratio, others = PRIOR_MAX_OVER_MEAN
        if mean is None:
            longest = _prior("completion_max", PRIOR_MAX_TOKENS, "tokens", ())
        else:
            alternatives = tuple(mean.value * other for other in others)
            longest = _prior("completion_max", mean.value * ratio, "tokens", alternatives)
    if mean is None:
        frac, others = PRIOR_MEAN_FRAC
        alternatives = tuple(longest.value * other for other in others)
        mean = _prior("completion_mean", longest.value * frac, "tokens", alternatives)
    clipped = known.get("clipped_frac")
    if clipped is None:
        asked = min(PRIOR_CLIPPED_FRAC, mean.value / longest.value / 2)
        clipped = _prior("clipped_frac", 0.0, "frac", (asked,))
    prompt = known.get("prompt_mean") or _prior("prompt_mean", 0.0, "tokens", ())
    return [mean, longest, clipped, prompt]


def _prompts(profile: Profile, known: Mapping[str, Fact], facts: Mapping[str, Fact]) -> Fact:
    tokens = profile.tokens_per_step
    per_row = facts["completion_mean"].value + facts["prompt_mean"].value
    is_derivable = tokens is not None and not facts["completion_mean"].alternatives and per_row > 0
    if "prompts_per_step" in known or not is_derivable or tokens is None:
        return _or_prior(known, "prompts_per_step", "prompts", *PRIOR_PROMPTS)
    value = max(round(tokens.value / per_row / facts["group_size"].value), 1)
    where = "tokens per step over mean length and group size"
    return Fact(name="prompts_per_step", value=value, unit="prompts", source=Source.DERIVED, where=where)


_UNITS = {"prompts_per_step": "prompts", "group_size": "rollouts", "clipped_frac": "frac"}


def _stated(name: str, value: float, where: str) -> Fact:
    return Fact(name=name, value=value, unit=_UNITS.get(name, "tokens"), source=Source.MEASURED, where=where)


def _prior(name: str, value: float, unit: str, alternatives: tuple[float, ...]) -> Fact:
    return Fact(name=name, value=value, unit=unit, source=Source.FORECAST, where="prior", alternatives=alternatives)


def _or_prior(known: Mapping[str, Fact], name: str, unit: str, value: float, others: tuple[float, ...]) -> Fact:
    return known.get(name) or _prior(name, value, unit, others)
