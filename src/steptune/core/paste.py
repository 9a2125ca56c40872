"""A paste: everything that was read from what a user handed in, before any judgement.

One job's console logs, metric files and configs together become one `Paste`. It says what is there, where it
stands and how far it can be believed; what it means is for the stages that take it.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Literal

from steptune.core.knob import KnobValue
from steptune.core.profile import Origin, PhaseTime, Profile
from steptune.core.records import Record

SettingValue = KnobValue | tuple[KnobValue, ...]
"""A configuration value; lists of scalars are tuples. Nested mappings are flattened into dotted keys."""


class ValueStatus(StrEnum):
    """How far a value that was read can be believed."""

    MEASURED = "measured"
    """Printed by the framework."""
    DERIVED = "derived"
    """Computed by a reader from printed values."""
    IMPLAUSIBLE = "implausible"
    """Printed, but cannot be true: an MFU above 1, more memory than the card has."""


class Note(Record):
    """One thing to know: ``Note(text="perf/mfu/actor is 1.018, above 1: ...", origin=Origin(...))``."""

    text: str
    origin: Origin | None = None
    is_about_input: bool = False
    """Whether it says what of the input was read and what was not: every answer shows it at its top."""


class Setting(Record):
    """One line of configuration, as written.

    Example: ``actor_rollout_ref.rollout.n=5`` on line 24 of a launch script. Repeated keys stay, in order:
    `effective` lets the last one win, as Hydra does.
    """

    key: str
    """Dotted, in the framework's own spelling, without ``+``, ``++``, ``--``: ``micro_train_batch_size``.
    Environment variables are ``env.CUDA_LAUNCH_BLOCKING``."""
    value: SettingValue
    text: str
    """The value as written."""
    layer: Literal["default", "file", "code", "override", "env"]
    """default: the framework's own; file: YAML, TOML, JSON; code: Python; override: command line; env: exported."""
    origin: Origin
    prefix: Literal["", "+", "++", "~"] = ""
    """Hydra's prefix: ``+`` adds a key, so that a misspelt one is not refused."""
    is_resolved: bool = True
    """False for an interpolation or a shell variable: the value is then only its text."""


class SeriesPoint(Record):
    """One value of one step: ``SeriesPoint(step=3, value=0.0014, line=88)``."""

    step: int | None
    """As the log counts; None when it does not say."""
    value: float
    """May be NaN."""
    line: int
    status: ValueStatus = ValueStatus.MEASURED


class Series(Record):
    """One metric over the steps, in order; long logs keep only the most recent points.

    Canonical names (units): ``step_time`` s, ``reward``, ``reward_std``, ``zero_std_frac`` (groups whose rewards
    are all equal), ``entropy`` nat, ``completion_mean`` / ``completion_max`` / ``prompt_mean`` / ``padded_len``
    tokens, ``clipped_frac``, ``tokens`` per step, ``tokens_per_device_s``, ``effective_tokens_per_device_s``,
    ``mfu``, ``grad_norm``, ``loss``, ``kl_ref``, ``mismatch_k3`` nat, ``mismatch_k1`` nat, ``mismatch_mean_abs``
    nat, ``mult_prob_error``, ``is_ratio_mean``, ``ess_frac``, ``staleness_mean``, ``async_level``,
    ``memory_allocated_gib``, ``memory_reserved_gib``, ``memory_after_sleep_gib``, ``cpu_memory_gib``,
    ``evicted``, ``added``, ``grad_clip_frac``, ``lr``, ``gen_batches`` (generated for one batch that is trained, under
    dynamic sampling), ``tool_time`` s (mean of an episode's tool calls).
    """

    name: str
    """Canonical name, or the framework's key where there is none."""
    key: str
    """As the log spells it."""
    points: tuple[SeriesPoint, ...]
    path: str

    def finite(self) -> list[float]:
        """Finite, plausible values in order."""
        return [p.value for p in self.points if abs(p.value) < float("inf") and p.status is not ValueStatus.IMPLAUSIBLE]


class ExcerptKind(StrEnum):
    """Why a line was kept."""

    OOM = "oom"
    """Out of memory on a device, or of memory on the host."""
    ERROR = "error"
    """An exception's last line or an assertion."""
    WARNING = "warning"
    """A framework's warning that a rule knows."""
    MEMORY = "memory"
    """Memory stated outside metrics: sleep mode, KV cache size, utilisation."""
    PROGRESS = "progress"
    """A progress bar with its seconds per iteration."""
    EVENT = "event"
    """Anything else that dates or explains: engine started, checkpoint saved."""


class Excerpt(Record):
    """A line (or the few lines of one message) worth reading: an error text, a warning, a memory statement."""

    kind: ExcerptKind
    text: str
    """Clean: without colours and prefixes."""
    origin: Origin
    context: tuple[str, ...] = ()
    """Clean lines around it that tell where the program was: the frames of a traceback, innermost last."""
    count: int = 1
    """How often it came."""


class DeviceClaim(Record):
    """What the input says of the devices: ``DeviceClaim(name="H100", count=8, memory_gib=80.0, origin=...)``."""

    name: str | None = None
    count: int | None = None
    memory_gib: float | None = None
    origin: Origin


class Paste(Record):
    """Everything read from one job's files. An unknown framework is None, and every other field may be empty."""

    paths: tuple[str, ...]
    framework: str | None = None
    """``verl``, ``nemo_rl``, ``trl``, ``prime_rl``, ``slime``, ``skyrl``, ``openrlhf``, ``areal``, ``torchforge`` …"""
    framework_version: str | None = None
    settings: tuple[Setting, ...] = ()
    series: tuple[Series, ...] = ()
    excerpts: tuple[Excerpt, ...] = ()
    devices: DeviceClaim | None = None
    profile: Profile | None = None
    """The mean step; None when no step time was found."""
    phases: tuple[PhaseTime, ...] = ()
    """Phases whose seconds are in no step time, mean of the steps that have them: all of them where there is no
    profile, else those that ran after their step. No share can be made of them."""
    notes: tuple[Note, ...] = ()
    num_steps_seen: int = 0
    """Steps in the input, kept or not."""
    num_lines: int = 0

    def get_series(self, name: str) -> Series | None:
        """Return the series with this canonical name or key."""
        return next((s for s in self.series if name in (s.name, s.key)), None)


def effective(settings: Iterable[Setting]) -> dict[str, Setting]:
    """Return the setting that counts for every key: the last of the strongest layer.

    Layers from weak to strong: default, file, code, override, env.
    """
    chosen: dict[str, Setting] = {}
    for setting in settings:
        held = chosen.get(setting.key)
        if held is None or _strength(setting) >= _strength(held):
            chosen[setting.key] = setting
    return chosen


_LAYERS: Sequence[str] = ("default", "file", "code", "override", "env")


def _strength(setting: Setting) -> int:
    return _LAYERS.index(setting.layer)
