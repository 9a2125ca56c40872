"""Which commands start a training, and where their own arguments begin.

Wrappers (`ray job submit --`, `accelerate launch`, `uv run`, `bash -c`) have flags of their own; only what
belongs to the training program, and the launcher flags that size the job, become settings.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from steptune.readers.config.literal import read_literal
from steptune.readers.config.shell_words import Word
from steptune.readers.config.tree import flatten

_PYTHON = re.compile(r"(?:\S*/)?python[\d.]*")
_PROGRAM = re.compile(r"[\w./${}-]+\.py|[\w-]+(?:\.[\w-]+)+")
_NOT_TRAINING = re.compile(
    r"preprocess|prepare|convert|download|merge|huggingface_hub|\bpip\b|data_process|http\.server|json\.tool"
    r"|-c$|wandb|create_dataset|generate_dataset",
    re.IGNORECASE,
)
_LAUNCHERS = frozenset({"torchrun", "deepspeed", "accelerate"})
_SIZING = frozenset(
    {"num_processes", "num_machines", "nproc_per_node", "nproc-per-node", "nnodes", "num_gpus", "num_nodes",
     "config_file", "mixed_precision", "use_deepspeed", "zero_stage", "deepspeed_config_file"}
)  # fmt: skip
"""Launcher flags that say how many processes the job has or which backend it uses."""
_WRAPPERS = frozenset({"uv", "srun", "mpirun", "docker", "singularity", "stdbuf", "env", "timeout", "numactl", "nsys"})
_ENTRY_POINTS = frozenset({"rl", "sft", "trainer", "orchestrator", "inference", "trl", "nemo-rl", "skyrl", "areal"})
_SERVERS = frozenset({"vllm-serve", "serve", "rollout", "deploy"})
_METHODS = frozenset({"rlhf", "sft", "pt", "train", "rollout", "deploy"})
_TOOLBOXES = frozenset({"swift", "megatron", "llamafactory-cli"})
"""Programs that name the method first: `swift rlhf --rlhf_type grpo`, `swift rollout`."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Launch:
    """A launch command taken apart."""

    arguments: tuple[Word, ...] = ()
    """What the training program gets."""
    launcher_arguments: tuple[Word, ...] = ()
    """The launcher's flags that size the job."""
    env: tuple[tuple[str, str, Word], ...] = ()
    """Environment given on the command line: name, value, where."""
    scope_key: str = ""
    """Put before the keys of a server's flags: ``vllm_serve.``."""
    command: tuple[Word, ...] | None = None
    """A whole command inside this one (`ray job submit ... -- python ...`)."""


NOTHING = Launch()
"""A launch that passes nothing: what follows it has lost its backslashes, which Markdown eats."""


def find_launch(words: Sequence[Word]) -> Launch | None:
    """Return the launch in ``words``, or None for a command that trains nothing."""
    first = words[0].text
    if first == "ray":
        return _ray_submit(words)
    if _PYTHON.fullmatch(first) or first.startswith("$PYTHON"):
        return _python(words[1:])
    if first in _LAUNCHERS:
        return _launcher(words[1:])
    if first in _ENTRY_POINTS or first == "vllm":
        return _entry_point(words)
    if first in _TOOLBOXES:
        return _toolbox(words)
    if first in _WRAPPERS:
        return _wrapped(words)
    if first.endswith(".py") and not _NOT_TRAINING.search(first):
        return Launch(arguments=tuple(words[1:]))
    return None


def _wrapped(words: Sequence[Word]) -> Launch | None:
    """Return the command a wrapper starts; `uv run -m module` starts Python without naming it."""
    for at, word in enumerate(words[1:], start=1):
        if word.text == "-m" and words[0].text == "uv":
            return _python(words[at:])
        if _starts_command(word.text):
            return None if words[0].text == "docker" else Launch(command=tuple(words[at:]))
    return None


def _starts_command(text: str) -> bool:
    is_program = text.endswith(".py") or text in _LAUNCHERS or text in _ENTRY_POINTS
    return is_program or _PYTHON.fullmatch(text) is not None


def _ray_submit(words: Sequence[Word]) -> Launch | None:
    if [word.text for word in words[1:3]] != ["job", "submit"]:
        return None
    texts = [word.text for word in words]
    inner = texts.index("--") + 1 if "--" in texts else next(
        (at for at, word in enumerate(words[3:], 3) if _starts_command(word.text)), len(words)
    )  # fmt: skip
    env: list[tuple[str, str, Word]] = []
    for at, word in enumerate(words[:inner]):
        if word.text.startswith("--runtime-env-json"):
            given = word.text.partition("=")[2] or (words[at + 1].text if at + 1 < inner else "")
            env += _runtime_env(given, word)
    return Launch(env=tuple(env), command=tuple(words[inner:]) or ())


def _runtime_env(text: str, word: Word) -> list[tuple[str, str, Word]]:
    lines = [word.line + row for row in range(text.count("\n") + 1)]
    found: list[tuple[str, str, Word]] = []
    for entry in flatten(read_literal(text, lines)):
        if entry.key.startswith("env_vars."):
            is_resolved = "$" not in entry.text and "`" not in entry.text
            at = Word(text=entry.text, line=entry.line, is_resolved=is_resolved)
            found.append((entry.key.removeprefix("env_vars."), entry.text, at))
    return found


def _python(words: Sequence[Word]) -> Launch | None:
    at = 0
    while at < len(words) and words[at].text.startswith("-") and words[at].text not in ("-m", "-c"):
        at += 1
    if at < len(words) and words[at].text == "-m":
        at += 1
    if at >= len(words) or words[at].text == "-c" or _NOT_TRAINING.search(words[at].text):
        return None
    module = words[at].text
    if module in ("torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch"):
        return _launcher(words[at + 1 :])
    if "launch_server" in module or module.startswith("vllm."):
        return Launch(arguments=tuple(words[at + 1 :]), scope_key="server.")
    if is_flag_like(module):
        return Launch(arguments=tuple(words[at:]))
    return Launch(arguments=tuple(words[at + 1 :]))


def is_flag_like(text: str) -> bool:
    """Whether a word that should name a program is an argument already: the program's name was cut out."""
    return text.startswith("--") or "=" in text


def _launcher(words: Sequence[Word]) -> Launch:
    """Split a launcher's words at the program they start."""
    at = 1 if words and words[0].text == "launch" else 0
    start = at
    while at < len(words):
        text = words[at].text
        if text in ("-m", "--module"):
            at += 1
            break
        if not text.startswith("-") and _PROGRAM.fullmatch(text) and not _is_flag_value(words, at):
            break
        at += 1
    kept: list[Word] = []
    for position in range(start, min(at, len(words))):
        name, has_value, _ = words[position].text.lstrip("-").partition("=")
        if words[position].text.startswith("-") and name in _SIZING:
            kept += words[position : position + (1 if has_value else 2)]
    return Launch(arguments=tuple(words[at + 1 :]), launcher_arguments=tuple(kept))


def _is_flag_value(words: Sequence[Word], at: int) -> bool:
    """Whether the word before is a flag that takes this one: `--config_file zero3.yaml`."""
    before = words[at - 1].text if at else ""
    return before.startswith("--") and "=" not in before and not words[at].text.endswith(".py")


def _toolbox(words: Sequence[Word]) -> Launch | None:
    method = words[1].text if len(words) > 1 else ""
    if method not in _METHODS:
        return None
    return Launch(arguments=tuple(words[2:]), scope_key="vllm_serve." if method in _SERVERS else "")


def _entry_point(words: Sequence[Word]) -> Launch | None:
    second = words[1].text if len(words) > 1 else ""
    if words[0].text == "vllm" and second != "serve":
        return None
    if second in _SERVERS:
        return Launch(arguments=tuple(words[2:]), scope_key="vllm_serve.")
    return Launch(arguments=tuple(words[1:]))
