"""The fields of a `config.json`, read with their type; what is missing or odd is refused by its name."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from steptune.core.errors import ModelError, explain


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Fields:
    """The fields of one configuration, ``name`` being said in errors."""

    name: str
    values: Mapping[str, object]

    def size(self, *keys: str) -> int:
        """Return the first of ``keys`` that is set, a whole number of 1 or more.

        Raises:
            ModelError: none is set, or the value is no size.
        """
        for key in keys:
            value = self.values.get(key)
            if value is not None:
                return self._size(key, value)
        raise ModelError(
            explain(
                f"the configuration of `{self.name}` lacks `{keys[0]}`",
                got="no such field",
                allowed="a config.json with " + " or ".join(f"`{key}`" for key in keys),
                hint="give the whole config.json of the checkpoint as it was published",
            )
        )

    def size_or(self, default: int, *keys: str) -> int:
        """Return a size, ``default`` where none of ``keys`` is set; 0 is allowed."""
        for key in keys:
            value = self.values.get(key)
            if value is not None:
                return 0 if value == 0 else self._size(key, value)
        return default

    def flag(self, key: str, *, default: bool) -> bool:
        """Return a boolean field.

        Raises:
            ModelError: it is set to something else.
        """
        value = self.values.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self._odd(key, value, "true or false")
        return value

    def words(self, key: str) -> tuple[str, ...]:
        """Return a list of words, empty where it is not set.

        Raises:
            ModelError: it is no list of words.
        """
        value = self.values.get(key)
        if value is None:
            return ()
        if not isinstance(value, list | tuple) or not all(isinstance(word, str) for word in value):
            raise self._odd(key, value, "a list of words")
        return tuple(str(word) for word in value)

    def numbers(self, key: str) -> tuple[int, ...]:
        """Return a list of layer numbers, empty where it is not set.

        Raises:
            ModelError: it is no list of whole numbers.
        """
        value = self.values.get(key)
        if value is None:
            return ()
        if not isinstance(value, list | tuple) or not all(type(number) is int for number in value):
            raise self._odd(key, value, "a list of whole numbers")
        return tuple(number for number in value if isinstance(number, int))

    def refuse(self, key: str, why: str) -> None:
        """Raise where ``key`` is set to something that would change the shape.

        Raises:
            ModelError: it is.
        """
        if self.values.get(key):
            raise ModelError(
                explain(
                    f"`{key}` of `{self.name}` changes the shape in a way that is not known here",
                    got=self.values[key],
                    allowed="unset, false or 0",
                    hint=why,
                )
            )

    def _size(self, key: str, value: object) -> int:
        is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if not is_number or not isinstance(value, int | float) or value != int(value) or not 0 < value < 10**9:
            raise self._odd(key, value, "a whole number from 1 to 1e9")
        return int(value)

    def _odd(self, key: str, value: object, allowed: str) -> ModelError:
        hint = "give the config.json of the checkpoint as it was published"
        return ModelError(explain(f"`{key}` of `{self.name}` is no size", got=repr(value), allowed=allowed, hint=hint))
