"""Known configuration keys of every framework with type and default, and the keys that changed since.

Tables `keys_<framework>.csv` are written by `tools/collect_keys.py` from the sources named in their first lines;
`renames.csv` is kept by hand. The surprise: a NeMo RL default is what the base YAML says, and only counts for a
job whose `defaults:` chain ends there; a key known from one recipe alone has no default.
"""

import ast
import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal, final

from steptune.core.knob import KnobValue
from steptune.published.table import read_rows

FRAMEWORKS = ("verl", "nemo_rl", "trl", "skyrl", "prime_rl", "openrlhf", "slime", "areal")
"""Frameworks with a table of keys, named as `Paste.framework` names them."""

_WORDS: dict[str, KnobValue] = {"true": True, "false": False, "null": None, "none": None}


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class KeyFact:
    """One key: ``KeyFact(key="data.train_batch_size", type="int", default="1024", source="verl-project/verl@...")``.

    slime's and OpenRLHF's keys are their flags without dashes (``rollout-batch-size``, ``actor.num_nodes``).
    """

    key: str
    type: str
    """As the source declares it, or what its default value is; ``null`` when only that is known."""
    default: str
    """As the source writes it; empty when there is none or it is not known."""
    source: str
    """Repository, commit and file it was read in."""

    @property
    def value(self) -> KnobValue:
        """The default as a value; None for `null` and for a key without one, its text where it is computed."""
        if not self.default or self.default.lower() in _WORDS:
            return _WORDS.get(self.default.lower())
        try:
            known = ast.literal_eval(self.default)
        except (ValueError, SyntaxError):
            return self.default
        return known if isinstance(known, bool | int | float | str) else self.default


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Rename:
    """One change of a key.

    Example: ``Rename(old="generator.num_inference_engines", new="generator.inference_engine.num_engines",
    kind="renamed", since="0.2", what="...", source="...")``.
    """

    old: str
    new: str
    """Empty when nothing took its place."""
    kind: Literal["renamed", "removed", "ignored", "deprecated", "meaning"]
    """ignored: accepted and read nowhere; deprecated: still works; meaning: same name, other meaning or default."""
    since: str
    """First version or commit with the change; empty when only the present state is known."""
    what: str
    source: str


@cache
def known_keys(framework: str) -> Mapping[str, KeyFact]:
    """Return the known keys of ``framework`` by name; empty for a framework without a table."""
    if framework not in FRAMEWORKS:
        return {}
    text = files("steptune.published").joinpath("data", f"keys_{framework}.csv").read_text(encoding="utf-8")
    sources: dict[str, str] = {}
    at = 0
    while text.startswith("# ", at):
        end = text.index("\n", at)
        number, _, source = text[at + 2 : end].partition(" = ")
        sources[number] = source
        at = end + 1
    rows = csv.reader(text[at:].splitlines())
    next(rows)
    return {
        key: KeyFact(key=key, type=kind, default=default, source=sources[number]) for key, kind, default, number in rows
    }


@cache
def renames(framework: str) -> tuple[Rename, ...]:
    """Return the changes of ``framework``'s keys, in the table's order."""
    return tuple(
        Rename(old=r["old"], new=r["new"], kind=_kind(r["kind"]), since=r["since"], what=r["what"], source=r["source"])
        for r in read_rows("renames.csv")
        if r["framework"] == framework
    )


@cache
def former_names(framework: str) -> Mapping[str, tuple[str, ...]]:
    """Return by key the names it had before and still has the meaning of; keys that never changed are not there."""
    held: dict[str, list[str]] = {}
    for row in renames(framework):
        if row.kind == "renamed" and row.new:
            held.setdefault(row.new, []).append(row.old)
    return {new: tuple(old) for new, old in held.items()}


def _kind(text: str) -> Literal["renamed", "removed", "ignored", "deprecated", "meaning"]:
    for kind in ("renamed", "removed", "ignored", "deprecated", "meaning"):
        if text == kind:
            return kind
    raise ValueError(f"renames.csv: unknown kind `{text}`; hint: renamed, removed, ignored, deprecated or meaning")
