"""`steptune forecast CONFIG`: will the job of a verl, NeMo RL or TRL configuration fit on its devices?

Surprise: a `--set` that the count does not read is refused, also where the framework has such a setting: the table
would be that of the unchanged job.
"""

import argparse
import json
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

from steptune.cli.streams import print_line
from steptune.cli.wrong_call import WrongCallError, check_count
from steptune.core.errors import DeviceError, StepTuneError, explain
from steptune.core.knob import KnobValue
from steptune.core.paste import Paste, Setting
from steptune.core.profile import Origin
from steptune.memory.settings import View

DOES_NOT_FIT = 3
"""Exit code of a forecast that the job does not fit: a fault was found, as in `diagnose`."""


def is_config(target: Path) -> bool:
    """Return whether a forecast's target is a framework's configuration: a file that is no job of this tool."""
    return target.is_file() and target.suffix != ".toml"


def print_memory(args: argparse.Namespace) -> int:
    """Print the table of bytes by phase; exit 3 where it does not fit.

    Raises:
        StepTuneError: the file cannot be read, or lacks what a count needs; the message names it.
        WrongCallError: the device is not named or not known, or a flag says what the count does not take.
    """
    from steptune.memory.expected import DeviceCountError, expected_memory
    from steptune.memory.stated.asked import SettingError
    from steptune.readers.read_paste import read_paste
    from steptune.report.memory_text import memory_answer, memory_text
    from steptune.shapes.registry import UnknownNameError

    paste = _with_settings(read_paste(tuple(map(Path, args.targets))), args.settings)
    check_count("--num-devices", args.num_devices)
    try:
        expected = expected_memory(paste, model=args.model, device=args.device, num_devices=args.num_devices)
    except (DeviceError, DeviceCountError, UnknownNameError, SettingError) as error:
        if _is_of_the_input(error, args):
            raise
        raise WrongCallError(str(error)) from error
    _check_read(args.settings, expected.view)
    print_line(memory_answer(expected).model_dump_json(indent=2) if args.json else memory_text(expected))
    return DOES_NOT_FIT if expected.fit.answer == "does not fit" else 0


def _is_of_the_input(error: StepTuneError, args: argparse.Namespace) -> bool:
    """Return whether what is wrong stands in the files and not on the command line."""
    from steptune.memory.stated.asked import SettingError
    from steptune.shapes.registry import UnknownNameError

    if isinstance(error, SettingError):
        return error.key not in {text.partition("=")[0] for text in args.settings}
    return isinstance(error, UnknownNameError) and args.model is None


def _check_read(texts: list[str], view: View) -> None:
    """Raise WrongCallError for a ``--set`` that the count did not read: its answer would be that of another job."""
    for key in (text.partition("=")[0] for text in texts):
        if not view.was_asked(key):
            raise WrongCallError(
                explain(
                    "`--set` of a setting that this count of bytes does not read",
                    got=f"`{key}`",
                    allowed=", ".join(sorted(view.asked)),
                    hint=_near(key, view.asked),
                )
            )


def _near(key: str, known: Iterable[str]) -> str:
    """Return the keys that end in the same name, else those that are spelled alike."""
    keys = sorted(known)
    same = [one for one in keys if one.rpartition(".")[2] == key.rpartition(".")[2]]
    close = same or get_close_matches(key, keys, cutoff=0.8)
    if not close:
        return "spell it as the framework does; what is not in this list does not change the bytes of this job"
    return f"did you mean {' or '.join(f'`{one}`' for one in close)}?"


def _with_settings(paste: Paste, texts: list[str]) -> Paste:
    """Return the paste with ``--set KEY=VALUE`` over its own settings, in the framework's spelling."""
    added = tuple(_setting(text) for text in texts)
    return paste.model_copy(update={"settings": (*paste.settings, *added)})


def _setting(text: str) -> Setting:
    key, _, value = text.partition("=")
    return Setting(
        key=key, value=_value(value), text=value, layer="override", origin=Origin(path="--set", line=1, key=key)
    )


def _value(text: str) -> KnobValue:
    try:
        parsed: object = json.loads(text.lower() if text in ("True", "False", "None") else text)
    except json.JSONDecodeError:
        return text
    return parsed if isinstance(parsed, bool | int | float | str) or parsed is None else text
