"""`[model] kind = "hf"` of a job file: which folder or package it names, or what is wrong with the table."""

import json
from pathlib import Path

from pydantic import ValidationError

from steptune.core.errors import nearest
from steptune.core.model import DenseModel, HybridModel, HybridMoEModel, MoEModel
from steptune.core.pretrained import HfModel
from steptune.core.records import Record
from steptune.store.job_mistakes import Mistake, sentences
from steptune.store.overrides import Table

KINDS = tuple(
    str(record.model_fields["kind"].default) for record in (DenseModel, MoEModel, HybridModel, HybridMoEModel, HfModel)
)
"""What `model.kind` may be: a shape's family, or a folder."""


class _Named(Record):
    """The part of a job file that is read here, so that mistakes name their keys as it does."""

    model: HfModel


def named_model(raw: Table, base: Path) -> tuple[HfModel | None, list[Mistake]]:
    """Return the model folder that a job's table names (None: it has a shape instead) and every mistake in that.

    A relative folder is meant from ``base``, where the job file is; `~` is the user's home.
    """
    table = raw.get("model")
    kind = table.get("kind") if isinstance(table, dict) else None
    if isinstance(kind, str) and kind not in KINDS:
        return None, [_unknown(kind)]
    if kind != "hf":
        return None, []
    try:
        named = _Named.model_validate({"model": table}, strict=True).model
    except ValidationError as error:
        return None, sentences(_Named, error)
    if (named.folder is None) == (named.package is None):
        return None, [_one_of_both(named)]
    if named.folder is None:
        return named, []
    return named.model_copy(update={"folder": str((base / Path(named.folder).expanduser()).absolute())}), []


def _unknown(kind: str) -> Mistake:
    return Mistake.of(
        "model.kind",
        what="{key} in {where} has the wrong value",
        got=json.dumps(kind),
        allowed=", ".join(KINDS),
        hint=nearest(kind, KINDS),
    )


def _one_of_both(named: HfModel) -> Mistake:
    return Mistake.of(
        "model.folder",
        "model.package",
        what="{key} or `model.package` in {where} says where the model is",
        got="neither" if named.folder is None else "both",
        allowed="one of the two",
        hint='`folder = "models/qwen3-0.6b"`, or `package = "smollm2"`',
    )
