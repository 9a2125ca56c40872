"""An answer as JSON: the record itself and the version of its shape, keys sorted, NaN as the string ``"NaN"``."""

import json

from pydantic import BaseModel

SCHEMA_VERSION = 1
"""Grows when a key is renamed or removed; new keys do not count."""


def answer_json(record: BaseModel) -> str:
    """Return ``record`` as indented JSON with `schema_version` and a final line end."""
    held = {"schema_version": SCHEMA_VERSION, **json.loads(record.model_dump_json())}
    return json.dumps(held, sort_keys=True, indent=1, allow_nan=False) + "\n"
