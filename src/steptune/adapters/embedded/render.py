"""Writes a resolved job back as TOML with the given settings pinned: what `steptune train` and the owner read."""

import json
from collections.abc import Iterator, Mapping

from steptune.core.job import JobSpec
from steptune.core.knob import Settings

Table = Mapping[str, object]
"""A JSON-like table; None means the key is left out (its default is None)."""


def render_job(job: JobSpec, settings: Settings) -> str:
    """Return the job's TOML text with every knob pinned to ``settings`` (`"off"` spells None there)."""
    table = job.model_dump(mode="json")
    table["knobs"]["pin"] = {name: "off" if value is None else value for name, value in sorted(settings.items())}
    table["knobs"]["allow"] = []
    return "\n".join(_lines(table, ())) + "\n"


def _lines(table: Table, path: tuple[str, ...]) -> Iterator[str]:
    nested = {key: value for key, value in table.items() if isinstance(value, dict)}
    if path:
        yield f"\n[{'.'.join(path)}]"
    for key, value in table.items():
        if key not in nested and value is not None:
            yield f"{key} = {json.dumps(value)}"
    for key, value in nested.items():
        yield from _lines(value, (*path, key))
