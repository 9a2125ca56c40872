"""`python bench/gpu/validate.py FILE...`: may these files stand in `bench/results/gpu/`? Exit 1 if one may not.

Needs pydantic, not torch and not a GPU.
"""

import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parents[1]
# the script's own folder goes: its file names are those of other modules
sys.path[:] = [str(BENCH), str(BENCH.parent / "src"), *(p for p in sys.path if p != str(BENCH / "gpu"))]

from gpu.acceptance import problems, read  # noqa: E402


def refusals(path: Path) -> list[str]:
    """Return one sentence for every reason not to take the file."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        return [f"cannot be read: {error}"]
    found, malformed = read(text)
    return malformed if found is None else problems(found)


def main(arguments: list[str]) -> int:
    """Say of every file whether it may be added; 2 if there was none to look at."""
    if not arguments:
        print("usage: python bench/gpu/validate.py FILE...", file=sys.stderr)
        return 2
    refused = 0
    for path in map(Path, arguments):
        found = refusals(path)
        refused += bool(found)
        print(f"{path}: {'refused' if found else 'fine'}", *(f"  {line}" for line in found), sep="\n")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
