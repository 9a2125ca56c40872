"""The base of every record that is written to or read from a file."""

import hashlib
import json

from pydantic import BaseModel, ConfigDict


class Record(BaseModel):
    """A frozen record that refuses unknown fields.

    NaN and infinity survive the round trip as the strings ``"NaN"`` and ``"Infinity"``: a lost
    NaN would turn a broken run into a missing value.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="strings")


def canonical_json(record: Record) -> str:
    """Return the one JSON text of ``record`` that hashes are taken of (sorted keys, no spaces)."""
    return json.dumps(json.loads(record.model_dump_json()), sort_keys=True, separators=(",", ":"))


def content_hash(record: Record) -> str:
    """Return the first 12 hex digits of the SHA-256 of the canonical JSON."""
    return hashlib.sha256(canonical_json(record).encode()).hexdigest()[:12]
