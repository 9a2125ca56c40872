"""Python becomes settings: whole files through their syntax tree, pasted lines one by one.

The surprise: names are followed only as far as constants go (`beta = 0.1` used in a call); anything computed stays
unresolved as its source text.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from typing import TypeGuard, final

from steptune.core.knob import KnobValue
from steptune.core.paste import Setting, SettingValue
from steptune.readers.config.arguments import values_of
from steptune.readers.config.calls import key_prefix
from steptune.readers.config.line_kinds import is_metric_name, is_prose
from steptune.readers.config.python_syntax import parse_quietly
from steptune.readers.config.quoted_flags import read_flag_node
from steptune.readers.config.settings import make_setting
from steptune.readers.config.yaml_text import NumberedLine

_BARE = re.compile(
    r"\s*(?:os\.environ(?:\[|\.setdefault\()\s*['\"](?P<env>\w+)['\"]\s*(?:\]\s*=|,)\s*(?P<env_value>.*?)\)?"
    r"|(?P<key>[A-Za-z_][\w.-]*)(?: \((?P<alias>\w+)\))?\s*=\s*(?P<value>.*?))\s*,?\s*(?:\s#.*)?$"
)
_COMPUTED = re.compile(r"^[A-Za-z_][\w.]*\s*[(\[.+*/-]|^(?:lambda|not|await) |\s(?:if|else|or|and)\s")
_LITERAL = re.compile(r"['\"\[{(\d.+-]|(?:[Tt]rue|[Ff]alse|None|null)$")
_COUNTED = re.compile(r"(?P<number>[-+]?\d[\d.e+-]*) (?:\([^)]*\)|[a-z]+(?: \([^)]*\))?)")


def read_bare_lines(lines: Sequence[NumberedLine], path: str) -> Iterator[Setting]:
    """Yield the settings of ``name = value`` lines without a program around them."""
    for number, text in lines:
        found = _BARE.fullmatch(text)
        if found is None:
            continue
        if found["env"]:
            yield _env(found["env"], found["env_value"], path, number)
        elif not is_metric_name(found["key"]) and not is_prose(found["value"]):
            counted = _COUNTED.fullmatch(found["value"])
            written = counted["number"] if counted else found["value"]
            if not _COMPUTED.search(written):
                is_resolved = _LITERAL.match(written) is not None
                for key, value in values_of(found["key"], written, number):
                    yield make_setting(
                        key=key,
                        value=value,
                        text=written,
                        layer="code",
                        path=path,
                        line=number,
                        is_resolved=is_resolved,
                    )


def _env(name: str, text: str, path: str, line: int) -> Setting:
    value = text.strip().strip("'\"")
    return make_setting(key=f"env.{name}", value=value, text=value, layer="env", path=path, line=line)


def read_python(lines: Sequence[NumberedLine], path: str) -> tuple[Setting, ...] | None:
    """Return the settings of a whole Python file, or None when it does not parse."""
    try:
        tree = parse_quietly("\n".join(text for _, text in lines))
        return tuple(_PythonReader([number for number, _ in lines], path).read(tree))
    except (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError):
        return None


@final
class _PythonReader:
    """Walks a module for configuration calls, attribute settings and environment variables."""

    def __init__(self, numbers: list[int], path: str) -> None:
        self._numbers = numbers
        self._path = path
        self._constants: dict[str, SettingValue] = {}

    def read(self, tree: ast.Module) -> Iterator[Setting]:
        nodes = sorted((n for n in ast.walk(tree) if hasattr(n, "lineno")), key=lambda n: n.lineno)  # type: ignore[attr-defined]
        inside = _inner(nodes)
        for node in nodes:
            if isinstance(node, ast.Assign) and len(node.targets) == 1:
                yield from self._assignment(node.targets[0], node.value)
            elif isinstance(node, ast.Call):
                yield from self._call(node)
            if isinstance(node, ast.List | ast.Tuple) or _is_alone(node, inside):
                yield from read_flag_node(node, self._path, self._line)

    def _assignment(self, target: ast.expr, value: ast.expr) -> Iterator[Setting]:
        text, known, is_resolved = self._value(value)
        if isinstance(target, ast.Name):
            if is_resolved:
                self._constants[target.id] = known
        elif isinstance(target, ast.Subscript) and ast.unparse(target.value).endswith("environ"):
            key = self._value(target.slice)[1]
            if isinstance(key, str):
                yield self._setting(f"env.{key}", known, text, value, is_resolved=is_resolved, is_env=True)
        elif isinstance(target, ast.Attribute) and re.search(r"(?:args|config|cfg)$", ast.unparse(target.value)):
            yield self._setting(target.attr, known, text, value, is_resolved=is_resolved)

    def _call(self, node: ast.Call) -> Iterator[Setting]:
        name = ast.unparse(node.func)
        leaf = name.rsplit(".", 1)[-1]
        if leaf == "add_argument":
            self._remember_default(node)
            return
        if name.endswith("environ.setdefault") and len(node.args) == 2:
            key = self._value(node.args[0])[1]
            text, known, is_resolved = self._value(node.args[1])
            if isinstance(key, str):
                yield self._setting(f"env.{key}", known, text, node, is_resolved=is_resolved, is_env=True)
            return
        prefix = key_prefix(name)
        if prefix is None:
            return
        for keyword in node.keywords:
            if keyword.arg:
                text, known, is_resolved = self._value(keyword.value)
                yield self._setting(prefix + keyword.arg, known, text, keyword.value, is_resolved=is_resolved)

    def _remember_default(self, node: ast.Call) -> None:
        """An argument's default is what a plain run of the script uses: `args.num_generations`."""
        flag = next((a.value for a in node.args if isinstance(a, ast.Constant) and str(a.value).startswith("--")), None)
        default = next((k.value for k in node.keywords if k.arg == "default"), None)
        if isinstance(flag, str) and default is not None:
            _, known, is_resolved = self._value(default)
            if is_resolved:
                self._constants["args." + flag[2:].replace("-", "_")] = known

    def _value(self, node: ast.expr) -> tuple[str, SettingValue, bool]:
        """Return the source text, the value as far as constants go, and whether it is known."""
        text = ast.unparse(node)
        if text in self._constants:
            return text, self._constants[text], True
        try:
            known: object = ast.literal_eval(node)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            number = self._product(node)
            return text, text if number is None else number, number is not None
        if isinstance(known, list | tuple) and all(_is_scalar(item) for item in known):
            return text, tuple(item for item in known if _is_scalar(item)), True
        return text, known if _is_scalar(known) else text, True

    def _product(self, node: ast.expr) -> int | float | None:
        """Follow ``a * b`` and ``a // b`` of known numbers."""
        if not isinstance(node, ast.BinOp):
            return None
        sides: list[int | float] = []
        for side in (node.left, node.right):
            value = self._value(side)[1]
            if isinstance(value, bool) or not isinstance(value, int | float):
                return None
            sides.append(value)
        if isinstance(node.op, ast.Mult):
            return sides[0] * sides[1]
        if isinstance(node.op, ast.Add):
            return sides[0] + sides[1]
        return sides[0] // sides[1] if isinstance(node.op, ast.FloorDiv) and sides[1] else None

    def _line(self, node: ast.expr) -> int:
        return self._numbers[min(node.lineno, len(self._numbers)) - 1]

    def _setting(
        self, key: str, value: SettingValue, text: str, node: ast.expr, *, is_resolved: bool, is_env: bool = False
    ) -> Setting:
        line = self._line(node)
        return make_setting(
            key=key,
            value=value,
            text=text,
            layer="env" if is_env else "code",
            path=self._path,
            line=line,
            is_resolved=is_resolved,
        )


def _inner(nodes: Sequence[ast.AST]) -> frozenset[int]:
    """Return the identities of expressions that belong to another string, list or argument of `add_argument`."""
    owners = (n for n in nodes if isinstance(n, ast.List | ast.Tuple | ast.JoinedStr | ast.Call))
    return frozenset(id(child) for owner in owners for child in ast.iter_child_nodes(owner))


def _is_alone(node: ast.AST, inside: frozenset[int]) -> TypeGuard[ast.expr]:
    """Whether ``node`` is a string of several flags that stands alone: ``args = "--a 1 --b 2 "``."""
    return isinstance(node, ast.Constant | ast.JoinedStr) and id(node) not in inside


def _is_scalar(value: object) -> TypeGuard[KnobValue]:
    return value is None or isinstance(value, bool | int | float | str)
