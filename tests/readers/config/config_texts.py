"""Short ways to read texts in the tests of the configuration readers."""

from steptune.core.paste import Setting, SettingValue
from steptune.readers.config.read import read_config, read_settings


def settings_of(text: str) -> tuple[Setting, ...]:
    return read_settings(enumerate(text.split("\n"), start=1), "paste.txt")


def values_in(text: str) -> dict[str, SettingValue]:
    """Keys and values of a paste; a key that comes twice keeps its last value."""
    return {setting.key: setting.value for setting in settings_of(text)}


def one(text: str, key: str) -> Setting:
    """The only setting of that key."""
    (found,) = [setting for setting in settings_of(text) if setting.key == key]
    return found


def notes_of(text: str) -> list[str]:
    return [note.text for note in read_config(enumerate(text.split("\n"), start=1), "paste.txt").notes]
