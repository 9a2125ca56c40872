"""Where a value was read, short enough to stand beside it: ``run.log:12``."""

from collections import Counter
from collections.abc import Iterable
from pathlib import PurePath
from typing import final

from steptune.core.profile import Origin


@final
class Places:
    """Short names of the files of one answer; two files of the same name keep their paths."""

    def __init__(self, paths: Iterable[str]) -> None:
        names = Counter(PurePath(path).name for path in dict.fromkeys(paths))
        self._shared = frozenset(name for name, count in names.items() if count > 1)

    def of(self, origin: Origin | None) -> str:
        """Return file and line; the file alone where the line is unknown, nothing without an origin."""
        if origin is None:
            return ""
        name = self.file(origin.path)
        return f"{name}:{origin.line}" if origin.line > 0 else name

    def file(self, path: str) -> str:
        """Return the shortest name of ``path`` that names no other file."""
        name = PurePath(path).name
        return path if name in self._shared or not name else name
