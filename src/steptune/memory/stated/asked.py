"""Settings asked for by key with their type; one that a count needs and the input does not state is named.

Surprise: a default stands for a setting that is *not* there, or is `null`, `auto` or a variable. A value that the
setting cannot have (`abc` sequences, -4 devices) is refused: counted with the default it would be another job's bytes.
"""

from dataclasses import dataclass
from typing import final

from steptune.core.errors import StepTuneError, explain
from steptune.core.knob import KnobValue
from steptune.memory.settings import MAX_NUMBER, View


class LayoutError(StepTuneError, ValueError):
    """The settings do not say enough to count bytes."""


class SettingError(LayoutError):
    """A setting has a value that it cannot have; ``key`` names it."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """A view on the settings, asked by type: ``asked.count("trainer.nnodes", default=1)``."""

    view: View

    def flag(self, key: str, *, default: bool = False) -> bool:
        """Return a switch; what is not set has the framework's default, or ``default``."""
        value = self._value(key)
        if value is None:
            return default
        if value in (0, 1):
            return bool(value)
        word = str(value).lower()
        if word not in SWITCHES:
            raise refused(key, value, "true or false")
        return SWITCHES[word]

    def count(self, *keys: str, default: int | None = None) -> int:
        """Return the first of ``keys`` that is set, a whole number of 1 or more, else ``default``.

        Raises:
            LayoutError: one is set to something else, or none is and there is no default.
        """
        for key in keys:
            value = self.optional(key, WHOLE)
            if value is not None and value >= 1 and value == int(value):
                return int(value)
            if value is not None and self.view.is_set(key):  # a framework's own default may mean *ask the launcher*
                raise refused(key, value, WHOLE)
        if default is None:
            raise lacking(keys[0], WHOLE)
        return default

    def limit(self, key: str) -> int | None:
        """Return a whole number of 1 or more; None where it is not set, or is 0 or -1, which mean *none*.

        Raises:
            LayoutError: it is something else.
        """
        value = self.optional(key, WHOLE)
        if value is None or value in (0, -1):
            return None
        if value < 1 or value != int(value):
            raise refused(key, value, f"{WHOLE}; 0 or -1 for none")
        return int(value)

    def stated(self, key: str) -> int:
        """Return a whole number of 1 or more that the input itself states, whatever the framework's default.

        Raises:
            LayoutError: it does not.
        """
        if not self.view.is_set(key):
            raise lacking(key, WHOLE)
        return self.count(key)

    def number(self, key: str, default: float) -> float:
        """Return a number above 0, or 0 where that is the default; what is not set has ``default``.

        Raises:
            LayoutError: it is set to something else.
        """
        value = self.optional(key, "a number above 0")
        if value is None:
            return default
        if value < 0 or (value == 0 and default != 0):
            raise refused(key, value, "a number above 0")
        return value

    def part(self, key: str, default: float) -> float:
        """Return a part above 0 and up to 1, else ``default``.

        Raises:
            LayoutError: it is set to something else.
        """
        value = self.number(key, default)
        if value > 1:
            raise refused(key, value, "a part of the device above 0 and up to 1")
        return value

    def type_bytes(self, *keys: str, default: float) -> float:
        """Return the bytes of the number type that the first set one of ``keys`` names, else ``default``.

        Raises:
            LayoutError: it names none.
        """
        word = self.word(*keys)
        if word in ("", *UNSET) or num_bytes(word, 0):
            return num_bytes(word, default)
        key = next(key for key in keys if self.word(key))
        raise refused(key, word, "bfloat16, float16, float32, fp8 or int8")

    def _value(self, key: str) -> KnobValue:
        """Return the setting; None where it is not set, is a variable, or says that the framework decides."""
        value = self.view.value(key)
        return None if isinstance(value, str) and value.strip().lower() in UNSET else value

    def optional(self, key: str, allowed: str) -> float | None:
        """Return a number; None where it is not set.

        Raises:
            LayoutError: it is no number.
        """
        value = self._value(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < MAX_NUMBER:
            raise refused(key, value, allowed)
        return float(value)

    def word(self, *keys: str) -> str:
        """Return the first of ``keys`` that is a word, in lower case; empty where none is."""
        for key in keys:
            value = self.view.value(key)
            if isinstance(value, str):
                return value.lower()
        return ""


WHOLE = "a whole number of 1 or more"

UNSET = ("", "null", "none", "~", "auto")
"""Words with which a configuration leaves a setting to its framework."""

SWITCHES = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
"""YAML's words for a switch."""


def refused(key: str, value: object, allowed: str) -> SettingError:
    """Return the error of a setting with a value that it cannot have."""
    hint = "mend the setting, or give it with `--set`"
    got = f"{value:g}" if isinstance(value, float) else value
    return SettingError(key, explain(f"`{key}` has no such value", got=f"`{got}`", allowed=allowed, hint=hint))


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
