"""Reads configuration keys out of a framework's source text: YAML files, dataclasses, `add_argument` calls.

Nothing is imported or run. The surprise: a field whose type is a class of the same set becomes dotted keys below it,
also through `X | None`, `Annotated[...]` and unions, whose alternatives are all taken.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from steptune.core.paste import SettingValue
from steptune.readers.config.files import read_config_path
from steptune.readers.config.tree import flatten
from steptune.readers.config.yaml_text import read_yaml

MAX_DEPTH = 8
"""Nested classes followed, in levels."""

MAX_DEFAULT_CHARS = 80
"""Longer defaults are programs or prompts and only say `...`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fact:
    """One key as the source states it."""

    key: str
    type: str
    default: str
    root: Path
    path: str

    def with_key(self, key: str) -> "Fact":
        """Return the same fact under another spelling."""
        return replace(self, key=key)

    def without_default(self) -> "Fact":
        """Return the same fact when its value is one job's choice and not a default."""
        return replace(self, default="")


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """One class: its own fields, its bases, and where it stands."""

    fields: tuple[tuple[str, str, str], ...]
    """Name, annotation, default."""
    bases: tuple[str, ...]
    root: Path
    path: str


def yaml_facts(path: Path, root: Path) -> Iterator[Fact]:
    """Yield one fact per key of a YAML file; positions in lists are left out."""
    lines = list(enumerate(path.read_text(encoding="utf-8").splitlines(), start=1))
    for entry in flatten(read_yaml(lines)):
        yield from _value_fact(entry.key, entry.value, entry.text, path, root)


def composed_facts(path: Path, root: Path) -> Iterator[Fact]:
    """Yield one fact per key of a YAML file and its parents, merged."""
    for setting in read_config_path(path).settings:
        yield from _value_fact(setting.key, setting.value, setting.text, Path(setting.origin.path), root)


def group_facts(path: Path, root: Path) -> Iterator[Fact]:
    """Yield the groups that a Hydra `defaults` list chooses from, with the option chosen."""
    lines = list(enumerate(path.read_text(encoding="utf-8").splitlines(), start=1))
    for entry in flatten(read_yaml(lines)):
        place, _, group = entry.key.partition(".")
        key = group.partition(".")[2].partition("@")[0]
        if place == "defaults" and key:
            yield Fact(key=key, type="group", default=_short(entry.text), root=root, path=str(path.relative_to(root)))


def _value_fact(key: str, value: SettingValue, text: str, path: Path, root: Path) -> Iterator[Fact]:
    parts = key.split(".")
    if any(part.isdigit() or part == "_override_" for part in parts) or parts[0] in ("defaults", "hydra"):
        return
    name = "null" if value is None else "list" if isinstance(value, tuple) else type(value).__name__
    where = path.resolve().relative_to(root.resolve())
    yield Fact(key=key, type=name, default=_short(text), root=root, path=str(where))


def named_flag_facts(path: Path, root: Path) -> Iterator[Fact]:
    """Yield the flags that Megatron's fields name themselves: ``"arg_names": ["--norm-epsilon"]``."""
    for names in re.findall(r'"arg_names": \[([^\]]*)\]', path.read_text(encoding="utf-8")):
        for key in re.findall(r'"--([\w-]+)"', names):
            yield Fact(key=key, type="flag or value", default="", root=root, path=str(path.relative_to(root)))


def flag_facts(path: Path, root: Path) -> Iterator[Fact]:
    """Yield one fact per `add_argument` call, under every spelling it takes, inside loops over names too."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    loops = _named_loops(tree)
    for node in ast.walk(tree):
        if not (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument"
        ):
            continue
        given = {k.arg: ast.unparse(k.value) for k in node.keywords if k.arg}
        action = given.get("action", "").strip("'\"")
        kind = "flag" if action.startswith("store_") else given.get("type", "str")
        default = given.get("default", "False" if action == "store_true" else "None")
        for key in (key for argument in node.args for key in _spellings(argument, loops)):
            yield Fact(key=key, type=kind, default=_short(default), root=root, path=str(path.relative_to(root)))


def _named_loops(tree: ast.Module) -> dict[str, tuple[str, ...]]:
    """Return what every `for name in ("a", "b")` runs over."""
    found: dict[str, tuple[str, ...]] = {}
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.For)
            and isinstance(node.target, ast.Name)
            and isinstance(node.iter, ast.Tuple | ast.List)
        ):
            names = tuple(str(item.value) for item in node.iter.elts if isinstance(item, ast.Constant))
            found[node.target.id] = names
    return found


def _spellings(argument: ast.expr, loops: dict[str, tuple[str, ...]]) -> Iterator[str]:
    """Yield the flags of one argument without dashes; ``f"--{prefix}.optim"`` gives one per loop value."""
    if isinstance(argument, ast.Constant) and str(argument.value).startswith("--"):
        yield str(argument.value)[2:]
    elif isinstance(argument, ast.JoinedStr):
        text = ast.unparse(argument)[2:-1]
        for name, values in loops.items():
            if text.startswith(f"--{{{name}}}"):
                yield from (text[2:].replace(f"{{{name}}}", value) for value in values)


def read_classes(paths: Iterable[Path], root: Path) -> dict[str, Source]:
    """Return every class with annotated fields, and every alias that names such classes, by name."""
    found: dict[str, Source] = {}
    for path in sorted(paths):
        if not path.is_file() or "tests" in path.parts:
            continue
        where = str(path.relative_to(root))
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                bases = tuple(ast.unparse(base).split(".")[-1] for base in node.bases)
                found[node.name] = Source(fields=tuple(_fields(node)), bases=bases, root=root, path=where)
            elif alias := _alias(node):
                found.setdefault(alias[0], Source(fields=(("=", alias[1], ""),), bases=(), root=root, path=where))
    return found


def class_facts(classes: dict[str, Source], name: str, prefix: str = "", depth: int = 0) -> Iterator[Fact]:
    """Yield the fields of ``name`` and of everything below it, own fields before inherited ones."""
    source = classes.get(name)
    if source is None or depth > MAX_DEPTH:
        return
    for field, annotation, default in source.fields:
        key = f"{prefix}.{field}" if prefix else field
        inner = [n for n in dict.fromkeys(re.findall(r"\w+", annotation)) if n in classes and n != name]
        is_section = bool(inner) and default in ("", "...") and not _is_optional(annotation)
        if field == "=":
            key = prefix
        elif not is_section or _is_container(annotation):
            written = "" if default.removesuffix("()") in inner else default
            yield Fact(key=key, type=_short(annotation), default=_short(written), root=source.root, path=source.path)
        if not _is_container(annotation):
            for child in inner:
                yield from class_facts(classes, child, key, depth + 1)
    for base in source.bases:
        if base != name:
            yield from class_facts(classes, base, prefix, depth + 1)


def _is_optional(annotation: str) -> bool:
    return "None" in annotation or "Optional" in annotation


def _is_container(annotation: str) -> bool:
    return re.match(r"(?:list|List|dict|Dict|tuple|Mapping|Sequence)\b", annotation) is not None


def _fields(node: ast.ClassDef) -> Iterator[tuple[str, str, str]]:
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            name = statement.target.id
            if (
                not name.startswith("_")
                and name != "model_config"
                and "ClassVar" not in ast.unparse(statement.annotation)
            ):
                yield name, _annotation(statement.annotation), _default(statement.value)


def _annotation(node: ast.expr) -> str:
    """Return a type as written, without what `Annotated[type, ...]` says about it."""
    if (
        isinstance(node, ast.Subscript)
        and ast.unparse(node.value) in ("A", "Annotated")
        and isinstance(node.slice, ast.Tuple)
    ):
        node = node.slice.elts[0]
    return ast.unparse(node).strip("'\"")


def _default(value: ast.expr | None) -> str:
    """Return a field's default as written, out of `field(...)` and `Field(...)` where it is one."""
    if value is None:
        return ""
    if isinstance(value, ast.Call) and ast.unparse(value.func).split(".")[-1] in ("field", "Field"):
        for keyword in value.keywords:
            if keyword.arg in ("default", "default_factory"):
                text = ast.unparse(keyword.value)
                return text if keyword.arg == "default" else text.removeprefix("lambda: ")
        return ast.unparse(value.args[0]) if value.args else ""
    return ast.unparse(value)


def _alias(node: ast.stmt) -> tuple[str, str] | None:
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id, ast.unparse(node.value)
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
        return node.target.id, ast.unparse(node.value)
    return None


def _short(text: str) -> str:
    joined = " ".join(text.split())
    return joined if len(joined) <= MAX_DEFAULT_CHARS else "..."
