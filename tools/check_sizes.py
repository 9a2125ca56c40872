"""Fails on Python files over 600 lines and functions over 60. There is no exemption list."""

import ast
import sys
from pathlib import Path

MAX_FILE_LINES = 600
"""Lines per file; 100 to 200 is normal (house style, shape)."""

MAX_FUNCTION_LINES = 60
"""Lines per function, signature and docstring included."""


def findings(path: Path) -> list[str]:
    """Return one line for everything in ``path`` that is too long."""
    text = path.read_text(encoding="utf-8")
    num_lines = text.count("\n")
    found = [f"{path}: {num_lines} lines, allowed {MAX_FILE_LINES}"] if num_lines > MAX_FILE_LINES else []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > MAX_FUNCTION_LINES:
                found.append(f"{path}:{node.lineno} {node.name}: {length} lines, allowed {MAX_FUNCTION_LINES}")
    return found


def main() -> int:
    """Check every Python file under the given folders."""
    roots = [Path(arg) for arg in sys.argv[1:]]
    files = sorted(file for root in roots for file in root.rglob("*.py"))
    found = [line for file in files for line in findings(file)]
    for line in found:
        print(line)
    print(f"sizes: {len(files)} files checked, {len(found)} too long")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
