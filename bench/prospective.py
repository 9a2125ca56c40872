"""Forecasts written before their trials, over every engine: see `docs/design/scoreboard.md`.

`python bench/prospective.py --freeze` writes the list of jobs that the seed draws; `--list` prints the committed one.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "src")]

from prospective.frozen import FILE, as_text, drawn, frozen  # noqa: E402
from steptune.store.files import replace  # noqa: E402


def main(arguments: Sequence[str]) -> int:
    """Do what is asked."""
    parser = argparse.ArgumentParser(description="prospective campaign")
    parser.add_argument("--freeze", action="store_true", help="write the list of jobs that the seed draws")
    parser.add_argument("--list", action="store_true", help="print the committed list")
    options = parser.parse_args(arguments)
    if options.freeze:
        replace(FILE, as_text(drawn()))
    for job in frozen() if options.list else ():
        print(job.name, job.model, job.disturbance, *job.candidates, sep="\n    ")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
