"""Parses Python source that may be anything, without a word on standard error."""

import ast
import warnings


def parse_quietly(source: str) -> ast.Module:
    """Return the syntax tree; warnings about odd literals in somebody's paste are not ours to print.

    Raises:
        SyntaxError: the text is no Python.
        ValueError: it holds NUL characters.
        RecursionError: it is nested too deeply.
        MemoryError: likewise, found by the parser.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(source)
