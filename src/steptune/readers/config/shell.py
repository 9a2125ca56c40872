"""A shell script becomes the settings its launch commands pass.

The script is followed as bash would, without running anything: assignments, arrays, `if` on known values,
functions in place. The surprise: in a pasted fragment without any command, lower-case assignments that nothing
uses (`fsdp_size=8`) are what the author calls the configuration, so they become settings.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import final

from steptune.core.paste import Note, Setting
from steptune.core.profile import Origin
from steptune.readers.config.arguments import env_setting, is_override, read_arguments, values_of
from steptune.readers.config.launchers import NOTHING, Launch, find_launch
from steptune.readers.config.line_kinds import is_metric_name
from steptune.readers.config.settings import ConfigReading, make_setting
from steptune.readers.config.shell_flow import Flow, Runs
from steptune.readers.config.shell_variables import Scope
from steptune.readers.config.shell_words import Command, ShellReader, Word
from steptune.readers.lines import NumberedLine, read_numbered

_ASSIGN = re.compile(r"(?P<name>[A-Za-z_]\w*)(?P<append>\+?)=(?P<value>.*)", re.DOTALL)
_EXPORTS = frozenset({"export", "declare", "typeset", "local", "readonly"})
_ENV_PREFIX = re.compile(
    r"(?:VLLM|NCCL|CUDA|PYTORCH|TORCH|RAY|HYDRA|NRL|SGLANG|HF|TRANSFORMERS|OMP|TOKENIZERS|WANDB|UNSLOTH|VERL|NVTE"
    r"|PYTHON|TRITON|HCCL|ASCEND|SKYRL|GLOO|UCX|FLASHINFER)_[A-Z0-9_]+|NPROC_PER_NODE|NNODES"
)

MAX_ARRAY_WORDS = 5_000
"""Elements an array may have, so that arrays of arrays cannot fill the memory."""

MAX_SOURCED = 10
"""Files one script may source."""

MAX_CHARS = 1_000_000
"""Longest script that is followed; launch scripts have a few kilobytes."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class _Bare:
    """An assignment that may turn out to be a setting."""

    word: Word
    name: str
    text: str
    position: int


@final
@dataclass(kw_only=True, slots=True)
class ShellRun:
    """Follows one script; `settings` fill in the order the commands pass them."""

    path: str
    scope: Scope = field(default_factory=Scope)
    settings: list[Setting] = field(default_factory=list[Setting])
    notes: list[Note] = field(default_factory=list[Note])
    bare: list[_Bare] = field(default_factory=list[_Bare])
    flow: Flow = field(default_factory=Flow)
    runs: Runs = True
    """Whether the command being followed runs; None when that cannot be known."""
    num_launches: int = 0
    folder: Path | None = None
    """Where sourced files are looked for; None reads no other file."""
    sourced: list[str] = field(default_factory=list[str])
    """Files that were followed."""
    cut: Command | None = None
    """The launch a comment ended, while what follows looks like its arguments."""

    def run(self, lines: Sequence[NumberedLine], sourced_from: str = "") -> None:
        """Follow ``lines``; what a variable holds stays for the next call."""
        text = "\n".join(line for _, line in lines)[:MAX_CHARS]
        numbers = [number for number, _ in lines]
        reader = ShellReader(text=text, numbers=numbers, scope=self.scope, path=sourced_from)
        while (command := reader.next_command()) is not None:
            self._follow(command)

    def finish(self) -> ConfigReading:
        """Return the settings; arrays that no command used and bare assignments count when nothing was launched."""
        if not self.num_launches:
            self._add_leftovers()
        return ConfigReading(settings=tuple(self.settings), notes=tuple(self.notes), files=tuple(self.sourced))

    def _follow(self, command: Command) -> None:
        words, self.runs = self.flow.step(command)
        if not words or self.runs is False:
            return
        if self.runs is None:
            words = [_undecided(word) for word in words]
        if self._is_lost(words):
            self._note_lost(words)
            return
        self.cut = None
        rest = self._take_assignments(words)
        if rest:
            self._take_command(rest, command, inline=words[: len(words) - len(rest)])

    def _take_assignments(self, words: list[Word]) -> list[Word]:
        """Take the leading ``NAME=value`` words and return the rest."""
        at = 0
        while at < len(words) and (found := _ASSIGN.fullmatch(words[at].text)):
            self._assign(words[at], found)
            at += 1
        return words[at:]

    def _assign(self, word: Word, found: re.Match[str]) -> None:
        name, text = found["name"], found["value"]
        if word.array is not None:
            before = self.scope.arrays.get(name, ()) if found["append"] else ()
            self.scope.arrays[name] = (*before, *word.array)[:MAX_ARRAY_WORDS]
            return
        if found["append"]:
            text = self.scope.texts.get(name, "") + text
        self.scope.assign(name, text, is_resolved=word.is_resolved)
        self.bare.append(_Bare(word=word, name=name, text=text, position=len(self.settings)))

    def _take_command(self, words: list[Word], command: Command, inline: list[Word]) -> None:
        first = words[0].text
        if first in _EXPORTS:
            self._export(words[1:], is_env=first == "export")
            return
        if first.startswith("--") or is_override(first):
            self.settings += read_arguments([*inline, *words], self.path)
            return
        if first in ("source", ".") and len(words) > 1:
            self._source(words[1].text)
            return
        launch = find_launch(words)
        if launch is None:
            return
        self.num_launches += launch != NOTHING
        for word in inline:
            if found := _ASSIGN.fullmatch(word.text):
                self.settings.append(env_setting(found["name"], found["value"], word, self.path))
        self._launch(launch)
        if command.cut_by is not None:
            self.cut = command

    def _source(self, name: str) -> None:
        """Follow a sourced file near the script, however the script spells its own folder."""
        if self.folder is None or len(self.sourced) >= MAX_SOURCED:
            return
        parts = [part for part in name.rsplit(")", 1)[-1].split("/") if part and part != "."]
        near = self.folder.resolve().parent
        places = [Path(self.folder, *parts[at:]).resolve() for at in range(len(parts))]
        found = next((place for place in places if place.is_relative_to(near) and place.is_file()), None)
        if found is not None:
            self.sourced.append(str(found))
            self.run(read_numbered(found), sourced_from=str(found))

    def _launch(self, launch: Launch) -> None:
        for name, text, word in launch.env:
            self.settings.append(env_setting(name, text, word, self.path))
        if launch.command is not None:
            if launch.command:
                self._take_command(list(launch.command), Command(words=launch.command), inline=[])
            return
        self.settings += read_arguments(launch.launcher_arguments, self.path)
        self.settings += read_arguments(launch.arguments, self.path, launch.scope_key)

    def _export(self, words: list[Word], *, is_env: bool) -> None:
        for word in words:
            found = _ASSIGN.fullmatch(word.text)
            if found is None:
                continue
            self._assign(word, found)
            self.bare.pop() if word.array is None else None
            if is_env and word.array is None:
                self.settings.append(env_setting(found["name"], found["value"], word, self.path))

    def _is_lost(self, words: list[Word]) -> bool:
        """Whether these are arguments of the command that a comment has just ended."""
        first = words[0].text
        return self.cut is not None and (first.startswith("--") or (is_override(first) and "." in first.split("=")[0]))

    def _note_lost(self, words: list[Word]) -> None:
        cut_by = self.cut.cut_by if self.cut else None
        text = (
            f"the comment on line {cut_by} ends the command: `{words[0].text}` on line {words[0].line} and what "
            "follows it are never passed; hint: move the comment above the command"
        )
        self.notes.append(Note(text=text, origin=Origin(path=self.path, line=words[0].line, key=words[0].text)))

    def _add_leftovers(self) -> None:
        added: list[tuple[int, Setting]] = []
        for bare in self.bare:
            if _ENV_PREFIX.fullmatch(bare.name):
                added.append((bare.position, env_setting(bare.name, bare.text, bare.word, self.path)))
            elif bare.name not in self.scope.used and not bare.name.isupper() and not is_metric_name(bare.name):
                added += [(bare.position, setting) for setting in self._bare_settings(bare)]
        for position, setting in reversed(added):
            self.settings.insert(position, setting)
        for name, words in self.scope.arrays.items():
            if name not in self.scope.used:
                self.settings += read_arguments(words, self.path)

    def _bare_settings(self, bare: _Bare) -> list[Setting]:
        return [
            make_setting(
                key=key,
                value=value,
                text=bare.text,
                layer="override",
                path=self.path,
                line=bare.word.line,
                is_resolved=bare.word.is_resolved,
            )
            for key, value in values_of(bare.name, bare.text, bare.word.line)
        ]


def _undecided(word: Word) -> Word:
    """Return a word of a branch that may not run: what it sets is not known to be in force."""
    array = None if word.array is None else tuple(_undecided(item) for item in word.array)
    return replace(word, is_resolved=False, array=array)


def read_shell(lines: Sequence[NumberedLine], path: str, folder: Path | None = None) -> ConfigReading:
    """Return the settings of a whole script or of one fragment; files it sources are looked for in ``folder``."""
    run = ShellRun(path=path, folder=folder)
    run.run(lines)
    return run.finish()
