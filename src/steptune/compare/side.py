"""One side of a comparison: what a paste says of its work, its steps and its settings, drawn out once.

The surprise: a metric's steps and the profile's mean are two sources of the same number. Steps are preferred (they
have a spread); the profile stands in where the log was an average already.
"""

import math
from dataclasses import dataclass
from typing import final

from steptune.core.estimate import Estimate
from steptune.core.paste import Paste, Setting, ValueStatus, effective
from steptune.published.declared import Concept, declared_keys, normal_key
from steptune.stats.warmup import num_warmup_steps

MAX_NUMBER = 1e15
"""Declared numbers beyond are no sizes (infinity, NaN, an id); counts up to here are exact as floats."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Side:
    """Everything `compare` needs of one paste."""

    label: str
    """``A`` or ``B``."""
    paste: Paste
    settings: dict[str, Setting]
    """The settings that count, by key in normal form."""
    num_warmup: int
    """Leading steps left out of every series."""

    def setting(self, concept: Concept) -> Setting | None:
        """Return the setting that declares ``concept``, resolved, or None."""
        for key in declared_keys(concept):
            setting = self.settings.get(key)
            if setting is not None and setting.is_resolved:
                return setting
        return None

    def number(self, concept: Concept) -> float | None:
        """Return the declared number of ``concept``, or None."""
        setting = self.setting(concept)
        value = None if setting is None else setting.value
        if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) < MAX_NUMBER:
            return None
        return float(value)

    def steps(self, name: str) -> list[float]:
        """Return the steady, finite, plausible values of a series in order; empty where there is none."""
        series = self.paste.get_series(name)
        if series is None:
            return []
        points = [p for p in series.points if p.status is not ValueStatus.IMPLAUSIBLE and math.isfinite(p.value)]
        kept = points[self.num_warmup :] if len(points) > self.num_warmup else points
        return [point.value for point in kept]

    def mean(self, name: str) -> float | None:
        """Return the mean of a series' steady steps, or None."""
        values = self.steps(name)
        return sum(values) / len(values) if values else None

    def step_time(self) -> list[float] | Estimate | None:
        """Return the steady step times in seconds, or the profile's mean where no steps were logged."""
        return self.steps("step_time") or (self.paste.profile.step_time if self.paste.profile else None)


def side_of(paste: Paste, label: str) -> Side:
    """Return one side; warm-up is told from the step times, or from the throughput where there are none."""
    settings = {normal_key(key): setting for key, setting in effective(paste.settings).items()}
    bare = Side(label=label, paste=paste, settings=settings, num_warmup=0)
    times = bare.steps("step_time") or bare.steps("tokens_per_device_s")
    return Side(label=label, paste=paste, settings=settings, num_warmup=num_warmup_steps(times))


def num_devices(side: Side) -> float | None:
    """Return how many devices the job holds, from its claim, its settings or its profile; None when unknown."""
    claim = side.paste.devices
    if claim is not None and claim.count:
        return float(claim.count)
    nodes, per_node = side.number("num_nodes"), side.number("gpus_per_node")
    if per_node:
        return per_node * (nodes or 1.0)
    profile = side.paste.profile
    held = [] if profile is None else [role.num_devices for role in profile.roles if role.num_devices]
    if profile is None or not held:
        return None
    return max(held) if profile.placement == "colocated" else sum(held)
