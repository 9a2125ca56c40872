"""The planted suite: healthy configurations, one fault planted at a time, and near misses."""

import tomllib
from functools import cache
from pathlib import Path

from steptune.core.paste import Note, Paste, Setting
from steptune.core.profile import Origin
from steptune.core.records import Record
from steptune.readers.config.read import read_settings

SUITE = Path(__file__).parent / "suite"

Planted = bool | int | float | str


class Case(Record):
    """A fault and where it is planted."""

    framework: str
    rule: str
    base: str
    plant: dict[str, Planted]
    """Keys to set; they replace the base's."""
    repeat: dict[str, Planted] = {}
    """Keys to set a second time, after the base's."""
    unset: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    """Other rules of the same file that rightly fire on the fault."""
    calm: dict[str, Planted] = {}
    """A near miss: keys to set so that the rule must stay silent."""
    version: str | None = None
    calm_version: str | None = None
    prefix: str = ""
    note: str = ""
    """What a reader would note of the faulty file."""

    @property
    def code(self) -> str:
        return f"lint/{self.framework}/{self.rule}"


def cases() -> list[Case]:
    """Every case of the suite."""
    files = sorted(SUITE.glob("*.toml"))
    rows = [(file.stem, row) for file in files for row in tomllib.loads(file.read_text(encoding="utf-8"))["cases"]]
    return [Case.model_validate({"framework": framework, **row}) for framework, row in rows]


def bases() -> list[str]:
    """Names of the healthy configurations."""
    return sorted(path.name for path in (SUITE / "bases").iterdir())


def framework_of(base: str) -> str:
    """Return the framework a healthy configuration is for."""
    stem = base.split(".")[0]
    return {"nemo_dtensor": "nemo_rl", "nemo_megatron": "nemo_rl", "prime_rl": "prime_rl"}.get(stem, stem.split("_")[0])


def healthy(base: str) -> Paste:
    """Return a healthy configuration."""
    return Paste(paths=(base,), framework=framework_of(base), settings=_read(base))


def planted(case: Case) -> Paste:
    """Return the configuration with its fault."""
    paste = _changed(case, case.plant, case.unset, case.version, case.repeat)
    return paste.model_copy(update={"notes": (Note(text=case.note),) if case.note else ()})


def near_miss(case: Case) -> Paste:
    """Return the configuration with the near miss instead of the fault."""
    return _changed(case, case.calm, (), case.calm_version, {})


@cache
def _read(base: str) -> tuple[Setting, ...]:
    lines = (SUITE / "bases" / base).read_text(encoding="utf-8").splitlines()
    return read_settings(enumerate(lines, start=1), base)


def _changed(
    case: Case, values: dict[str, Planted], unset: tuple[str, ...], version: str | None, repeat: dict[str, Planted]
) -> Paste:
    base = healthy(case.base)
    gone = {*values, *unset}
    kept = [setting for setting in base.settings if setting.key not in gone]
    layer = base.settings[-1].layer
    added = [_setting(case, key, value, layer) for key, value in (*values.items(), *repeat.items())]
    return base.model_copy(update={"settings": (*kept, *added), "framework_version": version})


def _setting(case: Case, key: str, value: Planted, layer: str) -> Setting:
    is_env = key.startswith("env.")
    return Setting.model_validate(
        {
            "key": key,
            "value": value,
            "text": str(value),
            "layer": "env" if is_env else layer,
            "origin": Origin(path=case.base, line=900, key=key),
            "prefix": "" if is_env else case.prefix,
        }
    )
