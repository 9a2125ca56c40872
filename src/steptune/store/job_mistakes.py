"""Everything wrong with a job as house sentences: what, got, allowed, hint, naming the key as the user wrote it."""

import datetime as dt
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from steptune.core.errors import explain, nearest
from steptune.store.record_tree import Loc, Place, all_keys, choices, describe, place_of

BOUNDS = {"gt": "more than {:g}", "ge": "{:g} or more", "lt": "less than {:g}", "le": "{:g} or less"}
"""pydantic's constraint names as people say them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Mistake:
    """One thing wrong with a job, told where to look once the file's name is known."""

    loc: Loc
    """Path of the key that the sentence is about."""
    keys: tuple[str, ...]
    """Every dotted key that takes part."""
    what: str
    """With `{key}` and `{where}` left open."""
    got: object
    allowed: str
    hint: str

    @classmethod
    def of(cls, *keys: str, what: str, got: object, allowed: str, hint: str) -> Self:
        """Return a mistake about the first of ``keys`` in which the others take part."""
        return cls(loc=tuple(keys[0].split(".")), keys=keys, what=what, got=got, allowed=allowed, hint=hint)

    @property
    def table_keys(self) -> tuple[str, ...]:
        """The path down to the last table: an element of a list stands for the whole list."""
        end = next((i for i, part in enumerate(self.loc) if isinstance(part, int)), None)
        return tuple(str(name) for name in self.loc[:end])

    def sentence(self, file: str, overridden: set[str]) -> str:
        """Return the sentence; a key that `--set` wrote is not blamed on the file."""
        where = "`--set`" if any(_touches(key, by) for key in self.keys for by in overridden) else file
        what = self.what.replace("{where}", where).replace("{key}", f"`{_dotted(self.loc)}`")
        return explain(what, got=self.got, allowed=self.allowed, hint=self.hint)


def not_json(raw: dict[str, object]) -> list[Mistake]:
    """Return the values TOML can say but no job can mean: NaN, infinity, dates and times."""
    return [
        Mistake(
            loc=loc,
            keys=(_dotted(loc),),
            what="{key} in {where} has no usable value",
            got=value,
            allowed="finite numbers, text, true or false, lists and tables",
            hint="put a date in quotes, or leave the key out for its default",
        )
        for loc, value in _leaves(raw, ())
        if isinstance(value, dt.date | dt.time) or (isinstance(value, float) and not math.isfinite(value))
    ]


def sentences(root: type[BaseModel], error: ValidationError) -> list[Mistake]:
    """Return one mistake for each key of ``root`` that ``error`` is about."""
    found: dict[Loc, Mistake] = {}
    for detail in error.errors(include_url=False):
        place = place_of(root, detail["loc"])
        found.setdefault(place.loc, _mistake(root, place, detail))
    return list(found.values())


def _mistake(root: type[BaseModel], place: Place, detail: ErrorDetails) -> Mistake:
    got: object = _toml(detail["input"])
    context = detail.get("ctx", {})
    limits = [text.format(context[name]) for name, text in BOUNDS.items() if name in context]
    names = choices(place.expected)
    what, allowed, hint = "{key} in {where} has the wrong type", describe(place.expected), _default(place)
    if detail["type"] == "extra_forbidden":
        what, got = "unknown key {key} in {where}", f"`{place.loc[-1]}`"
        allowed, hint = ", ".join(place.siblings), _elsewhere(root, place)
    elif detail["type"] == "missing":
        what, got, hint = "{key} is missing in {where}", "nothing", f"add `{place.loc[-1]} = ...`"
    elif limits:
        what, allowed = "{key} in {where} is out of range", " and ".join(limits)
    elif names:
        got = context.get("tag", detail["input"])
        what, allowed, hint = "{key} in {where} has the wrong value", ", ".join(names), nearest(str(got), names)
        got = _toml(got)
    return Mistake(loc=place.loc, keys=(_dotted(place.loc),), what=what, got=got, allowed=allowed, hint=hint)


def _elsewhere(root: type[BaseModel], place: Place) -> str:
    """Return the hint for an unknown key: the closest sibling, or the table where the key does exist."""
    name = str(place.loc[-1])
    hint = nearest(name, place.siblings)
    homes = [key for key in all_keys(root) if key.rpartition(".")[2] == name]
    return hint if hint.startswith("did you mean") or not homes else f"did you mean `{homes[0]}`?"


def _default(place: Place) -> str:
    if place.field is None or place.field.is_required():
        return "see `examples/math-dense.toml`"
    default: object = place.field.default
    if isinstance(default, BaseModel | dict):
        return f"write it as a table, `[{_dotted(place.loc)}]`"
    return "leave it out" if default is None else f"the default is {_toml(default)}"


def _leaves(value: object, loc: Loc) -> Iterator[tuple[Loc, object]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, (*loc, str(key)))
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            yield from _leaves(inner, (*loc, i))
    else:
        yield loc, value


def _toml(value: object) -> str:
    """Return ``value`` as a job file would spell it."""
    return json.dumps(value, default=str)


def _dotted(loc: Loc) -> str:
    return ".".join(str(part) for part in loc)


def _touches(key: str, other: str) -> bool:
    """Whether one of two dotted keys is, or stands inside, the other."""
    return f"{key}.".startswith(f"{other}.") or f"{other}.".startswith(f"{key}.")
