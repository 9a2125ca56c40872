"""What a log says about the job besides its steps: the framework's version and `key=value` overrides."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import final

from steptune.core.knob import KnobValue

_SECTIONS = "data|algorithm|actor_rollout_ref|critic|trainer|async_training|rollout|grpo|policy|cluster|loss_fn"
_OVERRIDE = re.compile(rf"(?:^|\s)\+{{0,2}}((?:{_SECTIONS})(?:\.\w+)+)=(\S+)")
_VERSION = re.compile(
    r"\b(?:verl|nemo[-_ ]rl)(?:==|:\s?| version:? | )v?(\d+\.\d+(?:\.\d+)?(?:\.?(?:dev|rc|post)\d*)?)", re.IGNORECASE
)
_TRAINER = re.compile(
    r"\((FullyAsync|OneStepOff)\w* pid=|-m \S*(fully_async|one_step_off)_policy|trainer_mode\W+(\w+_async)"
)
"""A Ray actor, a module or a setting that only an asynchronous trainer has; prose that names one is not enough."""

_UNRESOLVED = re.compile(r"[/$\[{(*]")
"""A path, a shell variable or a list: not a knob's scalar setting."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class JobFacts:
    """Example: ``JobFacts(version="0.7.1", settings={"trainer.n_gpus_per_node": 8})``."""

    version: str | None
    trainer: str | None = None
    """Name of the asynchronous trainer that runs, lower case without underscores, as `fullyasync`."""
    settings: Mapping[str, KnobValue]
    """Overrides in the framework's own names; of repeated keys the last one wins, as in Hydra."""

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


def read_facts(raw_lines: Iterable[str]) -> JobFacts:
    """Collect version, trainer and overrides from lines with their Ray prefixes."""
    version: str | None = None
    trainer: str | None = None
    settings: dict[str, KnobValue] = {}
    for text in raw_lines:
        if version is None and (found := _VERSION.search(text)):
            version = found[1]
        if trainer is None and (named := _TRAINER.search(text)):
            trainer = next(group for group in named.groups() if group).lower().replace("_", "")
        for key, value in _OVERRIDE.findall(text):
            if not _UNRESOLVED.search(value):
                settings[key] = _setting(value.strip("'\"\\,"))
    return JobFacts(version=version, trainer=trainer, settings=settings)


def _setting(text: str) -> KnobValue:
    lowered = text.lower()
    if lowered in ("true", "false"):
        return lowered == "true"
    if lowered in ("null", "none"):
        return None
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text
