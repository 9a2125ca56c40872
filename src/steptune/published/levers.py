"""Which levers differ between two published rows of a job, by family, and what sort of pair that makes.

A pair that differs in layout, devices, placement, schedule, lengths, batching or memory settings is *structural*; one
that differs in stated kernels or patches alone is a *kernel* pair. Mini-batch, optimizer steps and loss settings are
*algorithm* changes: another job, never scored. A pair with no known difference is a *repeat* (the noise of publishing),
or the same recipe in another *release* or on another *site*; if one side states a lever that the other does not, it is
*unclear*, for unknown is not unmoved. A kernel or patch that only one side names counts as moved within a release, for
patches are named where they are applied; between releases it is a setting that did not exist yet. Rows of two
frameworks are compared by nobody here: that is no lever of a job.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import final

from steptune.published.public_run import PublicRun
from steptune.published.table import read_rows

LEVER_FAMILIES: Mapping[str, tuple[str, ...]] = {
    "devices": ("n_gpus", "gpu_type"),
    "placement": ("placement", "train_share"),
    "schedule": ("async_lag",),
    "train layout": ("train_tp", "train_pp", "train_cp", "train_ep"),
    "rollout layout": ("rollout_tp", "rollout_ep"),
    "lengths": ("max_prompt_len", "max_response_len"),
    "batching": ("prompts_per_step", "group_size", "micro_batch", "packing"),
    "memory": ("recompute",),
}
"""Columns by family. Data-parallel sizes follow from devices and layout and are no levers of their own."""

SETTING_FAMILY: Mapping[str, str] = {
    **dict.fromkeys(
        ("sequence_parallel", "expert_tp", "ulysses_sp", "fsdp", "sp", "vpp", "zero_stage"), "train layout"
    ),
    **dict.fromkeys(("context_parallel", "train_layout", "mapping"), "train layout"),
    **dict.fromkeys(("infer_layout", "pd_disaggregation", "gen_workers"), "rollout layout"),
    **dict.fromkeys(("nodes",), "devices"),
    **dict.fromkeys(("mode", "split", "hybrid_replicas"), "placement"),
    **dict.fromkeys(("partial_rollout", "require_batches", "staleness_threshold", "weight_sync_every"), "schedule"),
    **dict.fromkeys(("trigger_parameter_sync_step", "parameter_sync_step", "in_flight_weight_updates"), "schedule"),
    **dict.fromkeys(("max_total_sequence_length", "seq_len", "fixed_response_len"), "lengths"),
    **dict.fromkeys(("vllm_gpu_memory_utilization", "gpu_memory_utilization", "sglang_mem_fraction"), "memory"),
    **dict.fromkeys(("optimizer_cpu_offload", "offload", "param_optimizer_offload", "ref_param_offload"), "memory"),
    **dict.fromkeys(("actor_offload", "optimizer_offload", "offload_policy", "cpu_adam", "lora_rank"), "memory"),
}
"""Family of a structural setting; one that is not named here belongs to batching."""

KERNEL_COLUMNS = ("precision_train", "precision_rollout")
"""Columns whose difference is one of software."""

JOB_COLUMNS = ("model", "workload", "algorithm")
"""Columns that must not differ: they are another job, whatever the group says."""

SYSTEM_COLUMNS = ("framework",)
"""Columns whose difference makes two systems of the pair."""


class PairKind(StrEnum):
    """What two rows of one job differ in."""

    STRUCTURAL = "structural"
    KERNEL = "kernel"
    REPEAT = "repeat"
    """Nothing: the noise of publishing."""
    RELEASE = "release"
    """Only the release: the same recipe, published again."""
    SITE = "site"
    """Only the cluster."""
    UNCLEAR = "unclear"
    """Nothing that both sides state."""
    ALGORITHM = "algorithm"
    """Another job: not scored."""
    SYSTEM = "system"
    """Another framework: not scored."""


class SettingKind(StrEnum):
    """What a name in `other_settings` is."""

    STRUCTURAL = "structural"
    ALGORITHM = "algorithm"
    KERNEL = "kernel"
    IDENTITY = "identity"
    OUTCOME = "outcome"


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """What moved from one row to another: ``Difference(families=("placement", "schedule"), ...)``."""

    families: tuple[str, ...]
    """Families of structural levers, in the order of `LEVER_FAMILIES`."""
    kernels: tuple[str, ...]
    algorithm: tuple[str, ...]
    one_sided: tuple[str, ...]
    """Structural and algorithm levers that only one of the two states."""
    is_other_system: bool
    is_other_release: bool
    is_other_site: bool

    @property
    def num_levers(self) -> int:
        """Families moved, kernels together as one."""
        return len(self.families) + bool(self.kernels)

    @property
    def kind(self) -> PairKind:
        """What sort of pair that makes."""
        if self.algorithm:
            return PairKind.ALGORITHM
        if self.is_other_system:
            return PairKind.SYSTEM
        if self.families:
            return PairKind.STRUCTURAL
        return PairKind.KERNEL if self.kernels else self._kind_of_no_known_move()

    def _kind_of_no_known_move(self) -> PairKind:
        if self.one_sided:
            return PairKind.UNCLEAR
        if self.is_other_site:
            return PairKind.SITE
        return PairKind.RELEASE if self.is_other_release else PairKind.REPEAT


@cache
def setting_kinds() -> Mapping[str, SettingKind]:
    """Return what each name in `other_settings` is."""
    return {row["setting"]: SettingKind(row["kind"]) for row in read_rows("run_settings.csv")}


def difference(a: PublicRun, b: PublicRun) -> Difference:
    """Return what is known to differ between two rows."""
    moved = {family for family, columns in LEVER_FAMILIES.items() if _differing(a, b, columns)}
    settings = _moved_settings(a, b)
    moved |= {SETTING_FAMILY.get(name, "batching") for name in settings[SettingKind.STRUCTURAL]}
    if a.gpu_type is None or b.gpu_type is None:
        moved |= {"devices"} if _differing(a, b, ("hardware",)) else set()
    stated_alone = _stated_by_one(a, b)
    is_other_release = a.version != b.version
    patches = [] if is_other_release else stated_alone[SettingKind.KERNEL]
    return Difference(
        families=tuple(family for family in LEVER_FAMILIES if family in moved),
        kernels=(*_differing(a, b, KERNEL_COLUMNS), *settings[SettingKind.KERNEL], *patches),
        algorithm=(*_differing(a, b, JOB_COLUMNS), *settings[SettingKind.ALGORITHM]),
        one_sided=(
            *_columns_of_one(a, b),
            *stated_alone[SettingKind.STRUCTURAL],
            *stated_alone[SettingKind.ALGORITHM],
        ),
        is_other_system=bool(_differing(a, b, SYSTEM_COLUMNS)),
        is_other_release=is_other_release,
        is_other_site=a.other_settings.get("cluster") != b.other_settings.get("cluster"),
    )


def train_share(run: PublicRun) -> float | None:
    """Return the share of the devices that train; 1.0 where all do both."""
    if run.gpus_train is None or not run.n_gpus:
        return None
    return run.gpus_train / run.n_gpus


def _differing(a: PublicRun, b: PublicRun, columns: Iterable[str]) -> list[str]:
    pairs = ((name, _value(a, name), _value(b, name)) for name in columns)
    return [name for name, one, other in pairs if one is not None and other is not None and one != other]


def _value(run: PublicRun, name: str) -> object:
    return train_share(run) if name == "train_share" else getattr(run, name)


def _columns_of_one(a: PublicRun, b: PublicRun) -> list[str]:
    names = [name for columns in LEVER_FAMILIES.values() for name in columns]
    return [name for name in names if (_value(a, name) is None) != (_value(b, name) is None)]


def _moved_settings(a: PublicRun, b: PublicRun) -> dict[SettingKind, list[str]]:
    shared = a.other_settings.keys() & b.other_settings.keys()
    return _by_kind(name for name in shared if a.other_settings[name] != b.other_settings[name])


def _stated_by_one(a: PublicRun, b: PublicRun) -> dict[SettingKind, list[str]]:
    return _by_kind(a.other_settings.keys() ^ b.other_settings.keys())


def _by_kind(names: Iterable[str]) -> dict[SettingKind, list[str]]:
    sorted_out: dict[SettingKind, list[str]] = {kind: [] for kind in SettingKind}
    for name in sorted(names):
        sorted_out[setting_kinds()[name]].append(name)
    return sorted_out
