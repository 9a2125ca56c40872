"""Fails when two Python files of a test tree share a name: pytest imports them by it, and cannot collect both."""

import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

MAY_REPEAT = frozenset({"conftest.py", "__init__.py"})
"""Files that pytest itself tells apart by their folders."""


def duplicates(files: Iterable[Path]) -> list[Sequence[Path]]:
    """Return the groups of files with one name, each in the order given."""
    by_name: dict[str, list[Path]] = defaultdict(list)
    for file in files:
        by_name[file.name].append(file)
    return [group for name, group in sorted(by_name.items()) if len(group) > 1 and name not in MAY_REPEAT]


def main() -> int:
    """Check every Python file under the given folders together."""
    files = sorted(file for arg in sys.argv[1:] for file in Path(arg).rglob("*.py"))
    found = duplicates(files)
    for group in found:
        print(f"one name for several files: {', '.join(map(str, group))}; hint: put the folder's name into it")
    print(f"test names: {len(files)} files checked, {len(found)} names used twice")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
