"""Writes changes in the language the user writes: overrides, flags, YAML, TOML or Python keyword arguments.

The language is that of the user's own settings where there are any: a NeMo RL job kept in a YAML file is answered in
YAML, one changed on the command line in overrides. Appended overrides of NeMo RL carry ``++``, which works whether the
key exists or not; SkyRL and verl take plain ones (a repeated ``k=v`` is fine, the last wins).
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, final

from steptune.core.knob import KnobValue
from steptune.diagnose.job import Job
from steptune.published.declared import normal_key

Language = Literal["override", "flag", "yaml", "toml", "python"]

_DEFAULTS: dict[str, Language] = {
    "trl": "yaml",
    "prime_rl": "toml",
    "torchforge": "yaml",
    "slime": "flag",
    "openrlhf": "flag",
    "unsloth": "python",
}
"""Languages of frameworks whose users do not write ``key=value`` overrides."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """A key and its new value: ``Change(key="trainer.save_freq", value=40)``."""

    key: str
    value: KnobValue
    is_flag: bool = False
    """Whether the framework's command line knows it as a switch without value."""


def config_lines(job: Job, changes: Sequence[Change]) -> tuple[str, ...]:
    """Return the changes, ready to paste."""
    language = language_of(job)
    if language == "toml":
        return tuple(line for change in changes for line in _toml(change))
    if language == "yaml":
        return tuple(line for change in changes for line in _yaml(change))
    if language == "python":
        return tuple(f"{change.key}={_python(change.value)}," for change in changes)
    if language == "flag":
        return tuple(_flag(job, change) for change in changes)
    prefix = "++" if job.paste.framework == "nemo_rl" else ""
    return tuple(f"{prefix}{change.key}={_plain(change.value)}" for change in changes)


def language_of(job: Job) -> Language:
    """Return the language of most of the user's own settings, else the framework's usual one."""
    usual = _DEFAULTS.get(job.paste.framework or "", "override")
    own = [s for s in job.paste.settings if s.layer in ("file", "code", "override")]
    if not own:
        return usual
    layer, _ = Counter(s.layer for s in own).most_common(1)[0]
    if layer == "code":
        return "python"
    if layer == "file":
        return "toml" if own[0].origin.path.endswith(".toml") or usual == "toml" else "yaml"
    return usual if usual == "flag" else ("flag" if usual == "yaml" else "override")


def _flag(job: Job, change: Change) -> str:
    name = change.key.lstrip("-")
    dashed = name if _writes_underscores(job) else name.replace("_", "-")
    if change.is_flag:
        return f"--{dashed}" if change.value else f"# remove --{dashed}"
    return f"--{dashed} {_plain(change.value)}"


def _writes_underscores(job: Job) -> bool:
    """Whether the user writes --a_b rather than --a-b; argparse flags of OpenRLHF and TRL are spelt so."""
    seen = [s.key for s in job.paste.settings if normal_key(s.key).count("_")]
    return any("_" in key for key in seen) if seen else job.paste.framework in ("openrlhf", "trl")


def _yaml(change: Change) -> list[str]:
    *parents, leaf = change.key.split(".")
    lines = [f"{'  ' * depth}{name}:" for depth, name in enumerate(parents)]
    return [*lines, f"{'  ' * len(parents)}{leaf}: {_lower(change.value)}"]


def _toml(change: Change) -> list[str]:
    *parents, leaf = change.key.split(".")
    value = f'"{change.value}"' if isinstance(change.value, str) else _lower(change.value)
    return [*([f"[{'.'.join(parents)}]"] if parents else []), f"{leaf} = {value}"]


def _python(value: KnobValue) -> str:
    return repr(value)


def _lower(value: KnobValue) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _plain(value: KnobValue) -> str:
    return str(value)
