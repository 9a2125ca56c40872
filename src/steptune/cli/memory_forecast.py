"""`steptune forecast CONFIG`: will the job of a verl, NeMo RL or TRL configuration fit on its devices?"""

import argparse
from pathlib import Path

from steptune.cli.streams import print_line


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
    from steptune.report.memory_text import memory_text

    paste = read_paste((Path(args.target),))
    expected = expected_memory(paste, model=args.model, device=args.device, num_devices=args.num_devices)
    print_line(memory_text(expected))
    return 1 if expected.fit.answer == "does not fit" else 0
