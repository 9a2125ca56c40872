"""What a log says about the job besides its steps: the framework's version, its trainer and the settings."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import final

from steptune.core.knob import KnobValue
from steptune.core.paste import Setting, effective


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class JobFacts:
    """Example: ``JobFacts(version="0.7.1", settings={"trainer.n_gpus_per_node": 8})``."""

    version: str | None
    trainer: str | None = None
    """Name of the asynchronous trainer that runs, lower case without underscores, as `fullyasync`."""
    settings: Mapping[str, KnobValue]
    """Scalar settings in the framework's own names, the effective value of each."""

    def positive_int(self, key: str) -> int | None:
        """Return the setting if it is a whole number above zero."""
        value = self.settings.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None

    def product(self, *keys: str) -> int | None:
        """Return the product of settings, or None when one of them is not stated."""
        result = 1
        for key in keys:
            value = self.positive_int(key)
            if value is None:
                return None
            result *= value
        return result


def job_facts(settings: Iterable[Setting], *, version: str | None, trainer: str | None) -> JobFacts:
    """Return the facts; settings that are lists or that nothing resolved are left out."""
    known = {
        key: setting.value
        for key, setting in effective(settings).items()
        if setting.is_resolved and not isinstance(setting.value, tuple)
    }
    return JobFacts(version=version, trainer=trainer, settings=known)


@final
@dataclass(kw_only=True, slots=True)
class FactFinder:
    """Takes raw lines, with their Ray prefixes, and keeps the first version and the first trainer's name."""

    version_pattern: re.Pattern[str] | None
    trainer_pattern: re.Pattern[str] | None
    literals: tuple[str, ...] = ()
    """One of them is in every line that a pattern can find; lines of metrics are long and hold none."""
    version: str | None = None
    trainer: str | None = None

    def take(self, raw: str) -> None:
        """Look at one line."""
        if not any(map(raw.__contains__, self.literals)):
            return
        if self.version is None and self.version_pattern and (found := self.version_pattern.search(raw)):
            self.version = found[1]
        if self.trainer is None and self.trainer_pattern and (named := self.trainer_pattern.search(raw)):
            self.trainer = next(group for group in named.groups() if group).lower().replace("_", "")
