"""Holds the job's `[knobs]` table against the knobs its framework has, which `load_job` cannot know."""

from collections.abc import Sequence

from steptune.core.errors import JobError, explain, nearest
from steptune.core.job import JobSpec
from steptune.core.knob import KnobSpec, KnobValue


def check_knobs(job: JobSpec, specs: Sequence[KnobSpec]) -> None:
    """Hold `knobs.allow` and `knobs.pin` against the knobs the framework has for this job.

    Raises:
        JobError: a knob is unknown, pinned to a value it cannot take, or both pinned and allowed to move.
            One message lists every mistake.
    """
    by_name = {spec.name: spec for spec in specs}
    lines = [
        *(_unknown("allow", name, by_name) for name in job.knobs.allow if name not in by_name),
        *(_unknown("pin", name, by_name) for name in job.knobs.pin if name not in by_name),
        *(_bad_pin(by_name[k], v) for k, v in job.knobs.pin.items() if k in by_name and not _takes(by_name[k], v)),
        *(_pinned_and_allowed(name) for name in job.knobs.allow if name in job.knobs.pin),
    ]
    if lines:
        raise JobError("\n".join(lines))


def _takes(spec: KnobSpec, value: KnobValue) -> bool:
    """Whether ``value`` is one of the knob's; True is not 1, but 1 is 1.0."""
    return any(value == v and isinstance(value, bool) == isinstance(v, bool) for v in spec.values)


def _unknown(where: str, name: str, by_name: dict[str, KnobSpec]) -> str:
    known = ", ".join(sorted(by_name)) or "none"
    return explain(f"`knobs.{where}` names no knob", got=f"`{name}`", allowed=known, hint=nearest(name, by_name))


def _bad_pin(spec: KnobSpec, value: KnobValue) -> str:
    allowed = ", ".join(_text(v) for v in spec.values)
    hint = nearest(str(value), [v for v in spec.values if isinstance(v, str)]) if isinstance(value, str) else ""
    fallback = f"use {_text(spec.values[0])}" if spec.values else "unpin it: it has no value for this job"
    close = hint if hint.startswith("did you mean") else fallback
    return explain(f"`knobs.pin.{spec.name}` has no such value", got=_text(value), allowed=allowed, hint=close)


def _pinned_and_allowed(name: str) -> str:
    hint = "take it out of one of them"
    return explain(f"`{name}` is in `knobs.allow` and `knobs.pin`", got="both", allowed="one of them", hint=hint)


def _text(value: KnobValue) -> str:
    return "`off`" if value is None else f"`{str(value).lower() if isinstance(value, bool) else value}`"
