"""Small formulas over configuration values, with unknown as a first-class answer.

Rules are data, so their arithmetic is text: ``train_batch * n % (num_gpus // sp)``. The surprise: what cannot be
known is None, and None never makes a rule fire. ``and`` and ``or`` follow Kleene: False and unknown is False. ``not``
reads "not known to be": true for a key that is not set, unknown for one that is set to something unreadable.
"""

import ast
import operator
from collections.abc import Callable, Iterator
from functools import cache
from typing import Protocol

Scalar = bool | int | float | str | None
"""A value in a formula; None is unknown."""

_ARITHMETIC: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}

_ORDER: dict[type[ast.cmpop], Callable[[float, float], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


class Scope(Protocol):
    """What a formula may ask of a configuration."""

    def value(self, name: str) -> Scalar:
        """Return the value behind a rule's name; None when unknown."""
        ...

    def is_set(self, name: str) -> bool:
        """Return whether the user wrote the key, with any value but null."""
        ...


def evaluate(text: str, scope: Scope) -> Scalar:
    """Return the value of ``text``, None where it rests on something unknown or divides by zero."""
    return _node(_parse(text), scope)


def holds(text: str, scope: Scope) -> bool:
    """Return whether ``text`` is known to be true."""
    return evaluate(text, scope) is True


def number(text: str, scope: Scope) -> float | None:
    """Return ``text`` as a number; None when it is unknown, text or a truth value."""
    found = evaluate(text, scope)
    return None if found is None or isinstance(found, str | bool) else found


def names_in(text: str) -> Iterator[str]:
    """Yield the names a formula uses, each once, in order of appearance."""
    nodes = list(ast.walk(_parse(text)))
    called = {node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    found = (node.id for node in nodes if isinstance(node, ast.Name))
    yield from dict.fromkeys(name for name in found if name not in called)


@cache
def _parse(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _node(node: ast.expr, scope: Scope) -> Scalar:
    match node:
        case ast.Constant(value=bool() | int() | float() | str() as value):
            return value
        case ast.Name(id=name):
            return scope.value(name)
        case ast.BinOp(left=left, op=op, right=right):
            return _arithmetic(op, _node(left, scope), _node(right, scope))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _arithmetic(ast.Sub(), 0, _node(operand, scope))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            known = _node(operand, scope)
            return None if known is None and _is_unreadable(operand, scope) else known is not True
        case ast.BoolOp(op=op, values=values):
            return _logic(isinstance(op, ast.And), [_node(value, scope) for value in values])
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return _compare(op, _node(left, scope), _node(right, scope))
        case ast.Call(func=ast.Name(id=name), args=args):
            return _call(name, args, scope)
        case _:
            raise ValueError(f"a rule's formula may not hold {ast.unparse(node)!r}")


def _arithmetic(op: ast.operator, left: Scalar, right: Scalar) -> Scalar:
    if left is None or right is None or isinstance(left, str | bool) or isinstance(right, str | bool):
        return None
    try:
        return _ARITHMETIC[type(op)](left, right)
    except (ZeroDivisionError, OverflowError):
        return None


def _logic(is_and: bool, values: list[Scalar]) -> Scalar:
    decisive = not is_and
    if any(value is decisive for value in values):
        return decisive
    return None if any(not isinstance(value, bool) for value in values) else is_and


def _compare(op: ast.cmpop, left: Scalar, right: Scalar) -> Scalar:
    if left is None or right is None:
        return None
    if isinstance(op, ast.Eq | ast.NotEq):
        return (_same(left, right)) is isinstance(op, ast.Eq)
    if isinstance(left, str | bool) or isinstance(right, str | bool):
        return None
    return _ORDER[type(op)](left, right)


def _same(left: Scalar, right: Scalar) -> bool:
    if isinstance(left, str) and isinstance(right, str):
        return left.lower() == right.lower()
    return type(left) is type(right) and left == right if isinstance(left, bool | str) else left == right


def _call(name: str, args: list[ast.expr], scope: Scope) -> Scalar:
    if name == "isset":
        return all(scope.is_set(arg.id) for arg in args if isinstance(arg, ast.Name))
    if name == "choose":
        condition = _node(args[0], scope)
        return _node(args[1 if condition else 2], scope) if isinstance(condition, bool) else None
    if name == "first":
        return _first(args, scope)
    values = [_node(arg, scope) for arg in args]
    numbers = [value for value in values if value is not None and not isinstance(value, str | bool)]
    if len(numbers) != len(values):
        return None
    return _numeric(name, numbers)


def _first(args: list[ast.expr], scope: Scope) -> Scalar:
    """The first known value; unknown as soon as a key is set to something that cannot be read."""
    for arg in args:
        value = _node(arg, scope)
        if value is not None:
            return value
        if _is_unreadable(arg, scope):
            return None
    return None


def _is_unreadable(node: ast.expr, scope: Scope) -> bool:
    """Whether a name in ``node`` is set to something that cannot be read: a shell variable, a cut-off value."""
    names = (part.id for part in ast.walk(node) if isinstance(part, ast.Name))
    return any(scope.is_set(name) and scope.value(name) is None for name in names)


def _numeric(name: str, numbers: list[int | float]) -> Scalar:
    match name:
        case "max":
            return max(numbers)
        case "min":
            return min(numbers)
        case _:
            raise ValueError(f"a rule's formula may not call {name!r}")
