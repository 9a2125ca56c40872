"""Shell variables: what a script assigned, and the expansions that launch scripts use.

The surprise: `${N:-8}` counts as known and is 8 when nothing assigned N, because that is what a plain run of the
script uses; a bare `$N` that nothing assigned is unknown.
"""

import ast
import operator
import re
from dataclasses import dataclass, field
from typing import Any, final

from steptune.readers.config.python_syntax import parse_quietly

_NAME = re.compile(r"[A-Za-z_]\w*|[0-9@*#?]")
_BRACED = re.compile(r"(?P<name>[A-Za-z_]\w*|[0-9@*#?])(?P<index>\[[^\]]*\])?(?P<rest>.*)", re.DOTALL)
_DEFAULT = re.compile(r":?[-=](?P<default>.*)", re.DOTALL)
_ENVIRONMENT = frozenset({"HOME", "PWD", "USER", "PATH", "HOSTNAME", "LD_LIBRARY_PATH", "PYTHONPATH"})
"""Names that come from outside: using them does not make a script incomplete."""

MAX_VALUE_CHARS = 20_000
"""Longest text a variable may grow to, so that doubling assignments cannot fill the memory."""

MAX_NUMBER = 10**18
"""Largest result of shell arithmetic that is believed: bash counts in 64 bits."""

MAX_NESTING = 20
"""Expansions inside expansions before the rest stays text."""


@final
@dataclass(kw_only=True, slots=True)
class Scope:
    """What has been assigned so far."""

    texts: dict[str, str] = field(default_factory=dict[str, str])
    unknown: set[str] = field(default_factory=set[str])
    """Names whose value could not be computed; their text is then as written."""
    arrays: dict[str, tuple[Any, ...]] = field(default_factory=dict[str, tuple[Any, ...]])
    used: set[str] = field(default_factory=set[str])
    """Names that something expanded."""

    def assign(self, name: str, text: str, *, is_resolved: bool) -> None:
        """Remember a value, at most `MAX_VALUE_CHARS` of it."""
        self.texts[name] = text[:MAX_VALUE_CHARS]
        (self.unknown.discard if is_resolved else self.unknown.add)(name)


Expansion = tuple[str, bool, int, tuple[Any, ...] | None]
"""Text, whether it is known, the position after it, and an array's elements."""


def expand(text: str, at: int, scope: Scope, depth: int = 0) -> Expansion:
    """Expand what starts at ``text[at]`` (a dollar or a backtick)."""
    if text[at] == "`":
        end = text.find("`", at + 1)
        stop = len(text) if end < 0 else end + 1
        return text[at:stop], False, stop, None
    if text.startswith("$((", at):
        stop = matching_bracket(text, at + 1, "(", ")")
        value = evaluate(expand_all(text[at + 3 : stop - 2], scope, depth + 1)[0], scope)
        return (str(value), True, stop, None) if value is not None else (text[at:stop], False, stop, None)
    if text.startswith("$(", at):
        stop = matching_bracket(text, at + 1, "(", ")")
        return text[at:stop], False, stop, None
    if text.startswith("${", at):
        stop = matching_bracket(text, at + 1, "{", "}")
        known = _braced(text[at + 2 : stop - 1], scope, depth)
        return (known[0], known[1], stop, known[2]) if known else (text[at:stop], False, stop, None)
    name = _NAME.match(text, at + 1)
    if name is None:
        return "$", True, at + 1, None
    if name[0] in "@*":
        return "", True, name.end(), ()
    value = _lookup(name[0], scope)
    return (value[0], value[1], name.end(), None) if value else (f"${name[0]}", False, name.end(), None)


def expand_all(text: str, scope: Scope, depth: int = 0) -> tuple[str, bool]:
    """Expand every variable in ``text``; say whether all were known."""
    if depth > MAX_NESTING or ("$" not in text and "`" not in text):
        return text, depth <= MAX_NESTING
    pieces: list[str] = []
    is_resolved = True
    at = 0
    while at < len(text):
        if text[at] in "$`":
            part, known, at, _ = expand(text, at, scope, depth + 1)
            pieces.append(part)
            is_resolved &= known
        else:
            pieces.append(text[at])
            at += 1
    return "".join(pieces), is_resolved


def _braced(body: str, scope: Scope, depth: int) -> tuple[str, bool, tuple[Any, ...] | None] | None:
    found = _BRACED.fullmatch(body)
    if found is None or depth > MAX_NESTING:
        return None
    name, rest = found["name"], found["rest"]
    scope.used.add(name)
    if found["index"] in ("[@]", "[*]") or name in "@*":
        return "", True, scope.arrays.get(name, ())
    held = _lookup(name, scope)
    if default := _DEFAULT.fullmatch(rest):
        # an empty value counts as unset only with the colon
        if held is None or (held[0] == "" and rest.startswith(":")):
            given, is_resolved = expand_all(default["default"], scope, depth + 1)
            given = given.strip("'\"")
            if rest.lstrip(":").startswith("="):
                scope.assign(name, given, is_resolved=is_resolved)
            return given, is_resolved, None
        return held[0], held[1], None
    if rest.startswith(":+") or held is None:
        return None
    return _transform(held, rest)


def _transform(held: tuple[str, bool], rest: str) -> tuple[str, bool, None]:
    text, is_resolved = held
    if rest in ("", ",,") or rest.startswith(":?"):
        return (text.lower() if rest == ",," else text), is_resolved, None
    if rest in ("##*/", "##*\\/"):
        return text.rsplit("/", 1)[-1], is_resolved, None
    if rest == "%/*":
        return text.rsplit("/", 1)[0], is_resolved, None
    if found := re.fullmatch(r"//?([^/]*)/([^/]*)", rest):
        return text.replace(found[1], found[2]) if found[1] else text, is_resolved, None
    return text, False, None


def _lookup(name: str, scope: Scope) -> tuple[str, bool] | None:
    scope.used.add(name)
    if name in scope.texts:
        return scope.texts[name], name not in scope.unknown
    if scope.arrays.get(name):
        return str(scope.arrays[name][0].text), True
    return (f"${name}", True) if name in _ENVIRONMENT else None


def matching_bracket(text: str, at: int, opener: str, closer: str) -> int:
    """Return the position after the bracket that closes ``text[at]``, or after the line when none does."""
    depth = 0
    for position in range(at, min(at + MAX_VALUE_CHARS, len(text))):
        depth += (text[position] == opener) - (text[position] == closer)
        if depth == 0:
            return position + 1
    end = text.find("\n", at)
    return len(text) if end < 0 else end


_OPERATIONS: dict[type[ast.operator], Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.floordiv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def evaluate(expression: str, scope: Scope) -> int | None:
    """Return the value of a shell arithmetic expression in integers, or None when it is unknown."""
    try:
        statement = parse_quietly(expression.strip()).body[0]
        value = _evaluate(statement.value, scope) if isinstance(statement, ast.Expr) else None
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError, KeyError, IndexError):
        return None
    return value if value is not None and abs(value) <= MAX_NUMBER else None


def _evaluate(node: ast.expr, scope: Scope) -> int:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return int(node.value)
    if isinstance(node, ast.Name):
        scope.used.add(node.id)
        return int(scope.texts[node.id])
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_evaluate(node.operand, scope)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        return int(_OPERATIONS[type(node.op)](_evaluate(node.left, scope), _evaluate(node.right, scope)))
    raise ValueError(f"not shell arithmetic: {type(node).__name__}")
