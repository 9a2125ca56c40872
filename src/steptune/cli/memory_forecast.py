"""`steptune forecast CONFIG`: will the job of a verl, NeMo RL or TRL configuration fit on its devices?"""

import argparse
import json
from pathlib import Path

from steptune.cli.streams import print_line
from steptune.core.knob import KnobValue
from steptune.core.paste import Paste, Setting
from steptune.core.profile import Origin


def is_config(target: Path) -> bool:
    """Return whether a forecast's target is a framework's configuration: a file that is no job of this tool."""
    return target.is_file() and target.suffix != ".toml"


def print_memory(args: argparse.Namespace) -> int:
    """Print the table of bytes by phase; exit 1 where it does not fit.

    Raises:
        StepTuneError: the file cannot be read, or lacks what a count needs; the message names it.
    """
    from steptune.memory.expected import expected_memory
    from steptune.readers.read_paste import read_paste
    from steptune.report.memory_text import memory_answer, memory_text

    paste = _with_settings(read_paste(tuple(map(Path, args.targets))), args.settings)
    expected = expected_memory(paste, model=args.model, device=args.device, num_devices=args.num_devices)
    print_line(memory_answer(expected).model_dump_json(indent=2) if args.json else memory_text(expected))
    return 1 if expected.fit.answer == "does not fit" else 0


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
