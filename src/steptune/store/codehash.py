"""Which code made a number: one hash over every source file of the package."""

import hashlib
from functools import cache
from pathlib import Path

import steptune


def code_hash(root: Path | None = None) -> str:
    """Return the SHA-256 (hex) over relative path and content of every ``*.py`` under ``root``, in path order.

    ``root`` is the installed package by default, which is read once: what a process runs is what it has loaded. Lengths
    go in as well, so that no two trees run together.
    """
    return _own_hash() if root is None else _hash_of(root)


@cache
def _own_hash() -> str:
    return _hash_of(Path(steptune.__file__).parent)


def _hash_of(root: Path) -> str:
    digest = hashlib.sha256()
    for name, path in sorted((path.relative_to(root).as_posix(), path) for path in root.rglob("*.py")):
        content = path.read_bytes()
        digest.update(f"{len(name)} {name} {len(content)} ".encode())
        digest.update(content)
    return digest.hexdigest()
