"""Files that are one file: the same path twice, or the same bytes under another name."""

import filecmp
from collections.abc import Iterable
from pathlib import Path


def without_copies_on_disk(paths: Iterable[Path]) -> tuple[list[Path], dict[Path, Path]]:
    """Return the files without byte-for-byte copies of an earlier one, and each copy with the file it repeats.

    Empty files and such that cannot be read are nobody's copy.
    """
    kept: list[Path] = []
    by_size: dict[int, list[Path]] = {}
    copies: dict[Path, Path] = {}
    for path in paths:
        size = path.stat().st_size if path.is_file() else 0
        alike = by_size.setdefault(size, [])
        first = next((other for other in alike if size and _is_same(path, other)), None)
        if first is not None:
            copies[path] = first
            continue
        alike.append(path)
        kept.append(path)
    return kept, copies


def _is_same(path: Path, other: Path) -> bool:
    try:
        return filecmp.cmp(path, other, shallow=False)
    except OSError:
        return False
