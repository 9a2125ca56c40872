"""YAML files with parents: NeMo RL's `defaults: base.yaml` and Hydra's `defaults` lists, followed on disk.

The surprise: a parent that is not there is no error. Its name stays as an unresolved `defaults` setting and a note
says so, because then no default value of this job is known.

Order of a Hydra list (the last one wins)::

    defaults: [model_engine: dp, actor@a.actor: ${model_engine}_actor, _self_]
               choice, sets the   file actor/dp_actor.yaml below key    this file's
               interpolation      a.actor                               own keys
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import final

from steptune.core.paste import Note, Setting
from steptune.readers.config.overlay import Placed, overlay
from steptune.readers.config.settings import unresolved_parent
from steptune.readers.config.tree import Leaf, Map, Node, Seq, flatten, join, unwrap_logged
from steptune.readers.config.yaml_text import read_yaml
from steptune.readers.lines import read_numbered

MAX_HEAD_LINES = 40
"""Lines in which a file may say its package; Hydra wants it in the first, a licence may stand before it."""

MAX_FILES = 200
"""Parent files one configuration may have; verl's tree has about 40."""

_PACKAGE = re.compile(r"^#\s*@package\s+(\S+)")
_GROUP = re.compile(r"(?P<how>override |optional )?(?P<group>[^@]+)(?:@(?P<package>.+))?")


@final
@dataclass(kw_only=True, slots=True)
class Composition:
    """Follows one configuration's parents; `notes` and `missing` say what was not there."""

    roots: list[Path]
    """Folders that hold config groups, the configuration's own first."""
    choices: dict[str, str] = field(default_factory=dict[str, str])
    """Options chosen by group, for `${group}` in later names."""
    fixed: set[str] = field(default_factory=set[str])
    """Groups that an `override` has settled."""
    missing: list[Setting] = field(default_factory=list[Setting])
    notes: list[Note] = field(default_factory=list[Note])
    files: list[Path] = field(default_factory=list[Path])
    """Every file that was read, in order."""

    def compose(self, path: Path, package: str = "", inside: tuple[Path, ...] = ()) -> list[Placed]:
        """Return the entries of ``path`` over those of its parents."""
        if len(self.files) >= MAX_FILES or path in inside:
            return []
        self.files.append(path)
        lines = read_numbered(path)
        tree = unwrap_logged(read_yaml(lines))
        declared = next((found for _, text in lines[:MAX_HEAD_LINES] if (found := _PACKAGE.search(text))), None)
        if declared:
            package = "" if declared[1] == "_global_" else declared[1]
        own = [
            Placed(entry=replace(entry, key=join(package, entry.key)), path=str(path))
            for entry in flatten(Map(items=tuple(i for i in tree.items if i[0] not in ("defaults", "hydra")), line=1))
            if entry.key
        ]
        self._add_search_path(tree, path)
        return self._over_parents(tree, own, path, package, (*inside, path))

    def _over_parents(
        self, tree: Map, own: list[Placed], path: Path, package: str, inside: tuple[Path, ...]
    ) -> list[Placed]:
        merged: list[Placed] = []
        is_own_placed = False
        for name, line, wanted in self._parents(tree, path, package):
            if name == "_self_":
                merged = overlay(merged, own)
                is_own_placed = True
                continue
            for file, below in wanted:
                if file is None:
                    self._miss(name, line, path)
                else:
                    merged = overlay(merged, self.compose(file, below, inside))
        return merged if is_own_placed else overlay(merged, own)

    def _parents(self, tree: Map, path: Path, package: str) -> Iterator[tuple[str, int, list[tuple[Path | None, str]]]]:
        """Yield name, line and the wanted files (with the key they go below) of every parent."""
        node = next((value for key, _, value in tree.items if key == "defaults"), None)
        items = node.items if isinstance(node, Seq) else () if node is None else (node,)
        for item in items:
            self._note_override(item)
        for item in items:
            if isinstance(item, Leaf):
                name, at, below = str(item.value).partition("@")
                yield name, item.line, [(self._file(path.parent, name), _below(below, package) if at else package)]
            elif isinstance(item, Map):
                for key, line, option in item.items:
                    yield f"{key}: {_names(option)}", line, self._group_files(key, option, path, package)

    def _note_override(self, item: Node) -> None:
        for key, _, option in item.items if isinstance(item, Map) else ():
            found = _GROUP.fullmatch(key)
            if found and found["how"] == "override " and isinstance(option, Leaf):
                self.choices.setdefault(found["group"], str(option.value))
                self.fixed.add(found["group"])

    def _group_files(self, key: str, option: Node, path: Path, package: str) -> list[tuple[Path | None, str]]:
        found = _GROUP.fullmatch(key)
        if found is None or found["how"] == "override ":
            return []
        group = found["group"]
        bare = group.strip("/").replace("../", "")
        below = found["package"] if found["package"] is not None else bare.replace("/", ".")
        below = _below(below, package)
        names = [self.choices[bare]] if bare in self.fixed else _names(option)
        if names and bare not in self.choices:
            self.choices[bare] = names[0]
        files = [(self._file(path.parent, f"{group}/{self._fill(name)}"), below) for name in names]
        return [pair for pair in files if pair[0] is not None or found["how"] != "optional "]

    def _fill(self, name: str) -> str:
        return re.sub(r"\$\{([^}]+)\}", lambda m: self.choices.get(m[1], m[0]), name)

    def _file(self, folder: Path, name: str) -> Path | None:
        """Return the file a parent's name means, or None when it is not there."""
        with_suffix = name if name.endswith((".yaml", ".yml")) else f"{name}.yaml"
        places = [folder] if not name.startswith("/") else []
        for place in (*places, *self.roots):
            candidate = Path(place, with_suffix.lstrip("/")).resolve()
            if candidate.is_file():
                return candidate
        return None

    def _add_search_path(self, tree: Map, path: Path) -> None:
        """Follow `hydra.searchpath: [file://folder]`, relative to any folder above the file."""
        for entry in flatten(tree):
            if entry.key != "hydra.searchpath" or not isinstance(entry.value, tuple):
                continue
            for place in entry.value:
                folder = str(place).removeprefix("file://")
                self.roots += [p / folder for p in path.resolve().parents if (p / folder).is_dir()][:1]

    def _miss(self, name: str, line: int, path: Path) -> None:
        setting, note = unresolved_parent(name, str(path), line)
        self.missing.append(setting)
        self.notes.append(note)


def _below(wanted: str, package: str) -> str:
    """Return the key a parent goes below: relative to ``package`` unless it starts with ``_global_``."""
    if wanted.startswith("_global_"):
        return wanted.removeprefix("_global_").lstrip(".")
    return join(package, wanted)


def _names(option: Node) -> list[str]:
    """Return the option names of a group entry; null chooses none."""
    if isinstance(option, Leaf):
        return [] if option.value is None else [str(option.value)]
    return [str(item.value) for item in option.items if isinstance(item, Leaf)] if isinstance(option, Seq) else []
