"""Writes `published/data/keys_<framework>.csv` from a local snapshot of a framework's public repository.

Usage: ``python tools/collect_keys.py FRAMEWORK SNAPSHOT NAME@COMMIT [EXTRA=NAME@COMMIT ...]`` where SNAPSHOT is a
folder with the repository's files and each EXTRA a folder of another project whose keys the framework takes over
(Megatron and SGLang for slime, transformers and accelerate for TRL). Needs no network; sources are only parsed.
"""

import csv
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "src"), str(Path(__file__).resolve().parent)]

from source_facts import (  # noqa: E402 - needs the two folders above
    Fact,
    class_facts,
    composed_facts,
    flag_facts,
    group_facts,
    named_flag_facts,
    read_classes,
    yaml_facts,
)

Collector = Callable[[Path, list[Path]], Iterator[Fact]]
"""Takes the snapshot and the extra folders; a key found twice keeps its first fact."""


def _verl(root: Path, _: list[Path]) -> Iterator[Fact]:
    config = root / "verl/trainer/config"
    names = ("ppo_trainer", "ppo_megatron_trainer", "ppo_veomni_trainer", "ppo_torchtitan_trainer")
    for name in names:
        yield from yaml_facts(config / f"_generated_{name}.yaml", root)
    for path in sorted(root.glob("verl/experimental/*/config/*.yaml")):
        yield from yaml_facts(path, root)
    yield from composed_facts(config / "sft_trainer_engine.yaml", root)
    for name in ("ppo_trainer", "sft_trainer_engine"):
        yield from group_facts(config / f"{name}.yaml", root)
    classes = read_classes(root.glob("verl/workers/config/*.py"), root)
    for prefix, name in _VERL_CLASSES:
        yield from class_facts(classes, name, prefix)


_VERL_CLASSES = (
    ("actor_rollout_ref.actor", "FSDPActorConfig"),
    ("actor_rollout_ref.actor", "McoreActorConfig"),
    ("actor_rollout_ref.rollout", "RolloutConfig"),
    ("actor_rollout_ref.model", "HFModelConfig"),
    ("actor_rollout_ref.actor.fsdp_config", "FSDPEngineConfig"),
    ("actor_rollout_ref.actor.megatron", "McoreEngineConfig"),
    ("actor_rollout_ref.ref.megatron", "McoreEngineConfig"),
    ("actor_rollout_ref.ref.fsdp_config", "FSDPEngineConfig"),
    ("critic", "FSDPCriticConfig"),
    ("critic", "McoreCriticConfig"),
)


def _nemo_rl(root: Path, _: list[Path]) -> Iterator[Fact]:
    base = root / "examples/configs/grpo_math_1B.yaml"
    others = [p for p in sorted(root.glob("examples/**/*.yaml")) if p != base and "quant_configs" not in p.parts]
    classes = read_classes((root / "nemo_rl").rglob("*.py"), root)
    yield from yaml_facts(base, root)
    for path, name in (
        ("grpo", "MasterConfig"),
        ("ppo", "MasterConfig"),
        ("sft", "MasterConfig"),
        ("dpo", "MasterConfig"),
    ):
        own = read_classes([root / f"nemo_rl/algorithms/{path}.py"], root)
        yield from class_facts({**classes, **own}, name)
    for path in others:
        yield from (fact.without_default() for fact in yaml_facts(path, root))


def _trl(root: Path, extra: list[Path]) -> Iterator[Fact]:
    sources = [*root.glob("trl/trainer/*_config.py"), *root.glob("trl/scripts/utils.py")]
    classes = read_classes([*(root / "trl/experimental").rglob("*_config.py"), *sources], root)
    for folder in extra:
        classes |= read_classes([folder / "src/transformers/training_args.py"], folder)
    names = ["GRPOConfig", "RLOOConfig", "SFTConfig", "DPOConfig", "RewardConfig", "AsyncGRPOConfig", "ModelConfig"]
    for name in (*names, "ScriptArguments"):
        yield from class_facts(classes, name)
    for folder in extra:
        launcher = read_classes([folder / "src/accelerate/commands/config/config_args.py"], folder)
        yield from class_facts(launcher, "ClusterConfig")


def _skyrl(root: Path, _: list[Path]) -> Iterator[Fact]:
    classes = read_classes((root / "skyrl/train/config").glob("*.py"), root)
    yield from class_facts(classes, "SkyRLTrainConfig")
    yield from class_facts(classes, "SFTConfig")


def _prime_rl(root: Path, _: list[Path]) -> Iterator[Fact]:
    classes = read_classes(root.glob("packages/prime-rl-configs/src/prime_rl/configs/*.py"), root)
    yield from class_facts(classes, "RLConfig")
    for prefix, name in (("", "TrainerConfig"), ("", "OrchestratorConfig"), ("", "InferenceConfig"), ("", "SFTConfig")):
        yield from class_facts(classes, name, prefix)


def _openrlhf(root: Path, _: list[Path]) -> Iterator[Fact]:
    for name in ("train_ppo_ray", "train_sft", "train_dpo", "train_rm"):
        yield from flag_facts(root / f"openrlhf/cli/{name}.py", root)


def _slime(root: Path, extra: list[Path]) -> Iterator[Fact]:
    for path in sorted(root.rglob("arguments.py")):
        yield from flag_facts(path, root)
    for folder in extra:
        yield from _megatron(folder)
        yield from _sglang(folder)


def _megatron(folder: Path) -> Iterator[Fact]:
    """Yield Megatron's flags: written out, or made from the fields of its configuration classes."""
    if not (folder / "megatron").is_dir():
        return
    yield from flag_facts(folder / "megatron/training/arguments.py", folder)
    sources = [*folder.glob("megatron/training/config/*.py"), *(folder / "megatron/core").rglob("*config.py")]
    classes = read_classes(sources, folder)
    for name in _MEGATRON_CLASSES:
        for fact in class_facts(classes, name):
            flag = fact.key.replace("_", "-")
            yield fact.with_key(flag)
            if fact.default == "True":
                yield from (fact.with_key(f"{prefix}-{flag}") for prefix in ("no", "disable"))
    for path in sources:
        yield from named_flag_facts(path, folder)


_MEGATRON_CLASSES = (
    "TransformerConfig",
    "TrainingConfig",
    "ValidationConfig",
    "OptimizerConfig",
    "SchedulerConfig",
    "CheckpointConfig",
    "TokenizerConfig",
    "RNGConfig",
    "RerunStateMachineConfig",
    "StragglerDetectionConfig",
    "DistributedInitConfig",
    "DistributedDataParallelConfig",
    "LoggerConfig",
    "ProfilingConfig",
)
"""Megatron turns the fields of these classes into flags."""


def _sglang(folder: Path) -> Iterator[Fact]:
    """Yield SGLang's server flags as slime takes them: behind `sglang-`."""
    classes = read_classes((folder / "python/sglang/srt/arg_groups/fields").glob("*.py"), folder)
    for name in classes:
        yield from (fact.with_key("sglang-" + fact.key.replace("_", "-")) for fact in class_facts(classes, name))


def _areal(root: Path, _: list[Path]) -> Iterator[Fact]:
    classes = read_classes([root / "areal/api/cli_args.py"], root)
    for name in ("PPOConfig", "GRPOConfig", "SFTConfig"):
        yield from class_facts(classes, name)


COLLECTORS: dict[str, Collector] = {
    "verl": _verl,
    "nemo_rl": _nemo_rl,
    "trl": _trl,
    "skyrl": _skyrl,
    "prime_rl": _prime_rl,
    "openrlhf": _openrlhf,
    "slime": _slime,
    "areal": _areal,
}


def write(framework: str, root: Path, name: str, extra: dict[Path, str]) -> int:
    """Write the table of one framework and return its number of rows."""
    origins = {root: name, **extra}
    chosen: dict[str, Fact] = {}
    for fact in COLLECTORS[framework](root, list(extra)):
        chosen.setdefault(fact.key, fact)
    target = Path(__file__).resolve().parents[1] / f"src/steptune/published/data/keys_{framework}.csv"
    sources = {f"{origins[fact.root]}:{fact.path}": fact for fact in chosen.values()}
    numbers = {source: str(number) for number, source in enumerate(sorted(sources), start=1)}
    with target.open("w", encoding="utf-8", newline="") as file:
        file.writelines(f"# {number} = {source}\n" for source, number in numbers.items())
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("key", "type", "default", "source"))
        for key in sorted(chosen):
            fact = chosen[key]
            writer.writerow((key, fact.type, fact.default, numbers[f"{origins[fact.root]}:{fact.path}"]))
    return len(chosen)


def main() -> int:
    """Read the arguments and write one table."""
    framework, root, name, *rest = sys.argv[1:]
    extra = {Path(folder): origin for folder, _, origin in (item.partition("=") for item in rest)}
    print(f"{framework}: {write(framework, Path(root), name, extra)} keys")
    return 0


if __name__ == "__main__":
    sys.exit(main())
