"""Settings asked for by key with their type; one that a count needs and the input does not state is named."""

from dataclasses import dataclass
from typing import final

from steptune.core.errors import StepTuneError, explain
from steptune.memory.settings import View


class LayoutError(StepTuneError, ValueError):
    """The settings do not say enough to count bytes."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """A view on the settings, asked by type: ``asked.count("trainer.nnodes", default=1)``."""

    view: View

    def flag(self, key: str, *, default: bool = False) -> bool:
        """Return a switch; what is not set has the framework's default, or ``default``."""
        value = self.view.value(key)
        return value if isinstance(value, bool) else default

    def count(self, *keys: str, default: int | None = None) -> int:
        """Return the first of ``keys`` that is a whole number of 1 or more, else ``default``.

        Raises:
            LayoutError: none is, and there is no default.
        """
        for key in keys:
            value = self.view.number(key)
            if value is not None and value >= 1 and value == int(value):
                return int(value)
        if default is None:
            raise lacking(keys[0], "a whole number of 1 or more")
        return default

    def stated(self, key: str) -> int:
        """Return a whole number of 1 or more that the input itself states, whatever the framework's default.

        Raises:
            LayoutError: it does not.
        """
        if not self.view.is_set(key):
            raise lacking(key, "a whole number of 1 or more")
        return self.count(key)

    def number(self, key: str, default: float) -> float:
        """Return a number above 0, else ``default``."""
        value = self.view.number(key)
        return value if value is not None and value > 0 else default

    def word(self, *keys: str) -> str:
        """Return the first of ``keys`` that is a word, in lower case; empty where none is."""
        for key in keys:
            value = self.view.value(key)
            if isinstance(value, str):
                return value.lower()
        return ""


def lacking(key: str, allowed: str) -> LayoutError:
    """Return the error of a setting that is needed and not stated."""
    return LayoutError(
        explain(
            f"`{key}` decides the bytes and is not stated",
            got="no such setting, an interpolation or a shell variable",
            allowed=allowed,
            hint="give the resolved configuration that the framework prints at start, or the launch script with values",
        )
    )


def num_bytes(word: str, default: float) -> float:
    """Return the bytes of a number type by its name."""
    if not word:
        return default
    if "32" in word and "bf" not in word:
        return 4.0
    if "8" in word and "16" not in word:
        return 1.0
    return 2.0 if "16" in word or word == "half" else default
