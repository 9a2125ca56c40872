"""Timers as people call them in tables of their own: without the framework's prefix, or in full."""

from collections.abc import Iterable

_WHOLE = ("step", "total", "step time", "step_time", "total step time", "whole step")


def timer_named(name: str, *, step_key: str, keys: Iterable[str], prefix: str = "", suffix: str = "") -> str | None:
    """Return the key of ``keys`` that ``name`` means, ``step_key`` for the whole step, None for any other name.

    >>> timer_named("actor_train", step_key="perf/step_time", keys=["perf/actor_train_time"], prefix="perf/",
    ...     suffix="_time")
    'perf/actor_train_time'
    """
    plain = name.strip("`* ").lower()
    if plain in _WHOLE or plain == step_key.lower():
        return step_key
    for key in keys:
        short = key.removeprefix(prefix)
        if plain in (key.lower(), short.lower(), short.removesuffix(suffix).lower()):
            return key
    return None
