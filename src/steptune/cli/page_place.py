"""Where a page may be written: never over a file that the answer was read from.

Surprise: a page found inside an input folder may be written again, or the same call would work only once.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from steptune.cli.wrong_call import WrongCallError
from steptune.core.errors import explain

PAGE_ENDINGS = (".html", ".htm")
"""Endings of pages, which inside a folder are earlier answers, not logs."""


def check_page(page: str | None, names: Sequence[str], paths: Sequence[Path]) -> None:
    """Check that ``page`` is none of the inputs: ``names`` as typed, ``paths`` with folders opened.

    Raises:
        WrongCallError: writing the page would overwrite an input.
    """
    if not page:
        return
    target = Path(page)
    named = [Path("/dev/stdin" if name == "-" else name) for name in names]
    inside = [path for path in paths if path.suffix.lower() not in PAGE_ENDINGS]
    for path in (*named, *inside):
        if _is_same(path, target):
            what, allowed = "`--html` would overwrite an input", "a file that is not read"
            hint = (
                f"`--html {target.stem or 'answer'}.html`"
                if target.suffix.lower() not in PAGE_ENDINGS
                else "another name"
            )
            raise WrongCallError(explain(what, got=f"`{page}`", allowed=allowed, hint=hint))


def _is_same(path: Path, target: Path) -> bool:
    if path.is_dir() or not target.exists() or not path.exists():
        return False
    return path.resolve() == target.resolve() or os.path.samefile(path, target)
