"""Walks the job's records by their annotations: which key an error is about, and what may stand there.

Surprise: pydantic's location of an error also names members of unions, which stand in no file; `place_of`
tells a key from such a name.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from types import UnionType
from typing import Annotated, Literal, TypeGuard, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

Loc = tuple[str | int, ...]
"""Path of a value in a job: ``("workload", "levels", 1)``."""

SCALARS: dict[object, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text in quotes",
}
"""Python's types as people who write TOML say them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where a location leads: the key as written, and what may stand there."""

    loc: Loc
    expected: object
    """Annotation of the value; None when no record has this key."""
    field: FieldInfo | None
    """The record field it is; None for an unknown key and for elements of lists and open tables."""
    siblings: tuple[str, ...]
    """Keys of the record the last name was looked up in."""


def place_of(root: type[BaseModel], loc: Loc) -> Place:
    """Walk ``loc`` down from ``root``, leaving out names of union members."""
    here: object = root
    path: Loc = ()
    field: FieldInfo | None = None
    siblings: tuple[str, ...] = ()
    for part in loc:
        here = plain(here)
        if is_record(here):
            siblings, field = tuple(here.model_fields), here.model_fields.get(str(part))
            path, here = (*path, part), field.annotation if field else None
        elif get_origin(here) in (dict, tuple):
            path, field, here = (*path, part), None, get_args(here)[get_origin(here) is dict]
        elif member := next((m for m in _members(here) if kind_of(m) == part), None):
            here = member
    return Place(loc=path, expected=plain(here), field=field, siblings=siblings)


def all_keys(record: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Yield every dotted key a file for ``record`` can have."""
    for name, field in record.model_fields.items():
        yield prefix + name
        inner = plain(field.annotation)
        for member in (inner, *_members(inner)):
            if is_record(member):
                yield from all_keys(member, f"{prefix}{name}.")


def plain(annotation: object) -> object:
    """Return ``annotation`` without Annotated metadata and without the None of an optional."""
    if get_origin(annotation) is Annotated:
        return plain(get_args(annotation)[0])
    members = [m for m in get_args(annotation) if m is not type(None)]
    return plain(members[0]) if get_origin(annotation) in (Union, UnionType) and len(members) == 1 else annotation


def is_record(annotation: object) -> TypeGuard[type[BaseModel]]:
    """Whether ``annotation`` is a record class, which a file writes as a table."""
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _members(union: object) -> list[type[BaseModel]]:
    """Return the records a union is made of; empty for anything else."""
    return [m for m in map(plain, get_args(union)) if is_record(m)]


def kind_of(record: type[BaseModel]) -> str:
    """Return the tag by which a union knows ``record``; its name when it has no `kind`."""
    field = record.model_fields.get("kind")
    return str(get_args(field.annotation)[0]) if field and get_origin(field.annotation) is Literal else record.__name__


def choices(annotation: object) -> list[str]:
    """Return the values a Literal, an enum or a tagged union can take; empty for anything else."""
    if get_origin(annotation) is Literal:
        return [str(value) for value in get_args(annotation)]
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return [str(member.value) for member in annotation]
    return [kind_of(m) for m in _members(annotation)]


def describe(annotation: object) -> str:
    """Return in words what may stand where ``annotation`` is expected."""
    annotation = plain(annotation)
    if isinstance(annotation, type) and annotation in SCALARS:
        return SCALARS[annotation]
    if is_record(annotation) or get_origin(annotation) is dict:
        return "a table"
    if get_origin(annotation) is tuple:
        return f"a list, each element {describe(get_args(annotation)[0])}"
    return " or ".join(dict.fromkeys(describe(m) for m in get_args(annotation) if m is not type(None)))
