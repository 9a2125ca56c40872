"""Every string of a record, reached and replaced: what redaction and path clean-up work with.

Surprise: enumeration members are strings too, and stay as they are; a changed record is a copy that is not
validated again, which is safe because text only ever becomes text.
"""

from collections.abc import Callable, Iterator
from enum import Enum
from typing import TypeVar, cast

from pydantic import BaseModel

ValueT = TypeVar("ValueT")


def map_strings(
    value: ValueT, change: Callable[[str], str], adjust: Callable[[BaseModel], BaseModel] = lambda record: record
) -> ValueT:
    """Return ``value`` with ``change`` applied to every string in it, dictionary keys included.

    ``adjust`` sees every record before its strings are changed. Parts without a change are shared with the original.
    """
    return cast("ValueT", _mapped(value, change, adjust))


def all_strings(value: object) -> Iterator[str]:
    """Yield every string in ``value``, dictionary keys included."""
    if isinstance(value, str):
        if not isinstance(value, Enum):
            yield value
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from all_strings(getattr(value, name))
    elif isinstance(value, dict):
        for key, held in cast("dict[object, object]", value).items():
            yield from all_strings(key)
            yield from all_strings(held)
    elif isinstance(value, tuple | list):
        for held in cast("tuple[object, ...]", value):
            yield from all_strings(held)


def _mapped(value: object, change: Callable[[str], str], adjust: Callable[[BaseModel], BaseModel]) -> object:
    if isinstance(value, str):
        return value if isinstance(value, Enum) else change(value)
    if isinstance(value, BaseModel):
        return _mapped_record(adjust(value), change, adjust)
    if isinstance(value, dict):
        held = cast("dict[object, object]", value)
        pairs = [(key, item, _mapped(key, change, adjust), _mapped(item, change, adjust)) for key, item in held.items()]
        is_same = all(new_key is key and new_item is item for key, item, new_key, new_item in pairs)
        return held if is_same else {new_key: new_item for _, _, new_key, new_item in pairs}
    if isinstance(value, tuple):
        items = cast("tuple[object, ...]", value)
        changed = tuple(_mapped(item, change, adjust) for item in items)
        is_same = all(new is old for new, old in zip(changed, items, strict=True))
        return items if is_same else changed
    return value


def _mapped_record(
    record: BaseModel, change: Callable[[str], str], adjust: Callable[[BaseModel], BaseModel]
) -> BaseModel:
    fields = {name: getattr(record, name) for name in type(record).model_fields}
    changed = {name: _mapped(value, change, adjust) for name, value in fields.items()}
    updates = {name: value for name, value in changed.items() if value is not fields[name]}
    return record.model_copy(update=updates) if updates else record
