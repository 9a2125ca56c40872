"""Reads the rule files, once per process."""

import tomllib
from functools import cache
from importlib.resources import files

from steptune.lint.rule import RuleSet

ANY = "any"
"""The rule file that counts for every framework, known or not."""


@cache
def rule_set(framework: str) -> RuleSet:
    """Return the rules of ``framework`` (empty for one without a file)."""
    path = files("steptune.lint") / "rules" / f"{framework}.toml"
    if not path.is_file():
        return RuleSet(framework=framework)
    return RuleSet.model_validate({"framework": framework, **tomllib.loads(path.read_text(encoding="utf-8"))})


def frameworks() -> tuple[str, ...]:
    """Return the frameworks that have rules, ``any`` first."""
    found = (path.name for path in (files("steptune.lint") / "rules").iterdir())
    names = sorted(name.removesuffix(".toml") for name in found if name.endswith(".toml"))
    return (ANY, *(name for name in names if name != ANY))
