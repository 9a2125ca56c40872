"""What a user tells in a comment because no line of the log does: `# fact: gpus=8`, `# fact: gpu=A100 80GB`.

Known facts: ``gpus`` and ``gpu_memory_gib`` (numbers), ``gpu`` (name, with its memory if one likes), a framework's name
(its version, ``verl=0.7``). Any other is a setting in the framework's own spelling, ``rollout.n=16``.
"""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import final

from steptune.core.paste import DeviceClaim, Setting
from steptune.core.profile import Origin
from steptune.readers.config.scalars import parse_scalar
from steptune.readers.config.settings import make_setting
from steptune.readers.lines import NumberedLine
from steptune.readers.scan.devices import read_devices
from steptune.readers.values import parse_number, whole_count

_FACT = re.compile(r"^\s*#\s*fact:\s*(?P<key>[\w.-]+)\s*=\s*(?P<value>\S.*)$")


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Told:
    """The facts of one file, in order."""

    facts: tuple[tuple[str, str, int], ...]
    """Key, value as written, line."""
    path: str

    def devices(self) -> DeviceClaim | None:
        """Return what they say of the devices."""
        found: DeviceClaim | None = None
        for key, text, line in self.facts:
            if key in ("gpu", "gpus", "gpu_memory_gib"):
                claim = _device_fields(key, text, self.path)
                origin = Origin(path=self.path, line=line, key=key)
                found = (found or DeviceClaim(origin=origin)).model_copy(update=claim)
        return found

    def version(self, framework: str) -> str | None:
        """Return the version told of ``framework``."""
        return next((text for key, text, _ in self.facts if key == framework), None)

    def settings(self, framework_names: Iterable[str]) -> tuple[Setting, ...]:
        """Return every other fact as a setting."""
        known = {"gpu", "gpus", "gpu_memory_gib", *framework_names}
        return tuple(
            make_setting(key=key, value=parse_scalar(text), text=text, layer="override", path=self.path, line=line)
            for key, text, line in self.facts
            if key not in known
        )


def read_told(lines: Iterable[NumberedLine], path: str) -> Told:
    """Return the facts among clean lines."""
    found = ((number, _FACT.match(text)) for number, text in lines)
    return Told(facts=tuple((fact["key"], fact["value"].rstrip(), number) for number, fact in found if fact), path=path)


def _device_fields(key: str, text: str, path: str) -> dict[str, object]:
    number = parse_number(text)
    if key == "gpus":
        return {"count": count} if (count := whole_count(number)) is not None else {}
    if key == "gpu_memory_gib":
        return {"memory_gib": number} if number is not None and 0 < number < math.inf else {}
    named = read_devices([(1, text)], path)
    return {"name": text} if named is None or named.name is None else _stated(named)


def _stated(claim: DeviceClaim) -> dict[str, object]:
    return {key: value for key in ("name", "count", "memory_gib") if (value := getattr(claim, key)) is not None}
