"""Is it the same work? Declared work was asked for, realised work came out; both are listed where they differ.

The surprise: a log can contradict its own declaration. Samples that were really trained (tokens over mean length)
are compared too, so that a config that belongs to another run does not pass for the work.
"""

from dataclasses import dataclass
from typing import Literal, final

from steptune.compare.differences import is_partial
from steptune.compare.side import Side
from steptune.core.comparison import WorkDifference
from steptune.published.declared import Concept
from steptune.published.defaults import default_of

Sameness = Literal["same", "differs", "unknown"]

REALISED_FRAC = 0.01
"""Relative difference below which realised quantities are the same: rounds of V37 differ by 0.04 % in length."""

SAMPLES_FRAC = 0.05
"""Difference of the trained samples that declared work must not contradict; padding and aborted samples take part."""

DECLARED: tuple[tuple[Concept, str, str], ...] = (
    ("prompts_per_step", "prompts per step", "prompts"),
    ("group_size", "group size", "samples per prompt"),
    ("samples_per_step", "samples per step", "samples"),
    ("max_completion_len", "longest answer", "tokens"),
    ("mini_batch", "mini batch", "prompts"),
    ("update_epochs", "epochs per step", ""),
    ("clip_low", "lower clip", ""),
    ("clip_high", "upper clip", ""),
    ("top_p", "top-p", ""),
    ("top_k", "top-k", ""),
)
"""Concept, as people say it, and unit."""

REALISED: tuple[tuple[str, str, str], ...] = (
    ("tokens", "tokens per step", "tokens"),
    ("completion_mean", "mean answer length", "tokens"),
    ("prompt_mean", "mean input length", "tokens"),
    ("clipped_frac", "truncated share", "frac"),
    ("padded_len", "padded length", "tokens"),
)
"""Series, as people say it, and unit."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """What differs, and whether the declared work is the same."""

    differences: tuple[WorkDifference, ...]
    sameness: Sameness

    def declared(self) -> tuple[WorkDifference, ...]:
        """Return the differences that were asked for."""
        return tuple(one for one in self.differences if one.is_declared)


def compare_work(a: Side, b: Side) -> Work:
    """Return the differences in declared and realised work."""
    declared = [_declared(a, b, *row) for row in DECLARED] + [_updates(a, b)]
    known = [pair for pair in declared if pair is not None]
    differing = [pair for pair in known if pair.a != pair.b]
    realised = [_realised(a, b, *row) for row in REALISED] + [_trained(a, b)]
    found = (*differing, *(one for one in realised if one is not None))
    return Work(differences=found, sameness=_sameness(known, differing, a, b))


def trained_samples(side: Side) -> float | None:
    """Return the samples of one step that the log itself implies: tokens over mean prompt and answer length."""
    tokens, answer, prompt = (side.mean(name) for name in ("tokens", "completion_mean", "prompt_mean"))
    if not tokens or not answer or prompt is None:
        return None
    return tokens / (answer + prompt)


def _sameness(known: list[WorkDifference], differing: list[WorkDifference], a: Side, b: Side) -> Sameness:
    if differing:
        return "differs"
    samples = _agree(trained_samples(a), trained_samples(b))
    if samples is False:
        return "differs"
    stated = {one.what for one in known}
    has_batch = {"prompts per step", "group size"} <= stated or "samples per step" in stated
    came_out = samples or _agree(a.mean("tokens"), b.mean("tokens"))
    return "same" if has_batch or came_out else "unknown"


def _agree(a: float | None, b: float | None) -> bool | None:
    return abs(a / b - 1) <= SAMPLES_FRAC if a and b else None


def _declared(a: Side, b: Side, concept: Concept, what: str, unit: str) -> WorkDifference | None:
    mine, theirs = _value(a, concept), _value(b, concept)
    if mine is None and theirs is not None:
        mine = _default(a, b, concept)
    elif theirs is None and mine is not None:
        theirs = _default(b, a, concept)
    if mine is None or theirs is None:
        return None
    return WorkDifference(what=what, a=mine, b=theirs, unit=unit, is_declared=True)


def _default(side: Side, other: Side, concept: Concept) -> float | None:
    """Return what ``side`` has by default where ``other`` sets the key; None for half a configuration."""
    setting = other.setting(concept)
    if setting is None or not side.settings or is_partial(side, other):
        return None
    known, value = default_of(side.paste.framework or other.paste.framework, setting.key)
    return float(value) if known and isinstance(value, int | float) and not isinstance(value, bool) else None


def _value(side: Side, concept: Concept) -> float | None:
    stated = side.number(concept)
    if stated is not None or side.paste.profile is None:
        return stated
    work = side.paste.profile.work
    read = {
        "prompts_per_step": work.prompts_per_step,
        "group_size": work.group_size,
        "max_completion_len": work.max_completion_len,
    }
    value = read.get(concept)
    return None if value is None else float(value)


def _updates(a: Side, b: Side) -> WorkDifference | None:
    profiles = a.paste.profile, b.paste.profile
    updates = [None if profile is None else profile.work.num_updates for profile in profiles]
    if updates[0] is None or updates[1] is None:
        return None
    return WorkDifference(what="updates per step", a=updates[0], b=updates[1], is_declared=True)


def _realised(a: Side, b: Side, name: str, what: str, unit: str) -> WorkDifference | None:
    return _if_far(what, a.mean(name), b.mean(name), unit)


def _trained(a: Side, b: Side) -> WorkDifference | None:
    samples = [None if value is None else round(value, 1) for value in (trained_samples(a), trained_samples(b))]
    return _if_far("trained samples per step", samples[0], samples[1], "samples")


def _if_far(what: str, a: float | None, b: float | None, unit: str) -> WorkDifference | None:
    if a is None or b is None or abs(a - b) <= REALISED_FRAC * max(abs(a), abs(b)):
        return None
    return WorkDifference(what=what, a=a, b=b, unit=unit, is_declared=False)


def work_text(difference: WorkDifference) -> str:
    """Return ``group size 5 -> 4``."""
    values = ["unknown" if value is None else f"{value:,.6g}" for value in (difference.a, difference.b)]
    return f"{difference.what} {values[0]} -> {values[1]}"
