"""Whatever a user hands in becomes one `Paste`: the way in for every command that takes logs, metrics or configs.

Strange content is never an error: what cannot be read is left out, and an unknown framework is None. Two looks at
every file, both streamed: the first finds the framework, the second reads its steps.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from steptune.core.paste import DeviceClaim, Note, Paste, Series
from steptune.readers.config.read import read_config
from steptune.readers.config.settings import ConfigReading
from steptune.readers.facts import FactFinder, job_facts
from steptune.readers.frameworks import framework
from steptune.readers.reading import FrameworkReader
from steptune.readers.scan.devices import read_devices
from steptune.readers.scan.head import head_lines
from steptune.readers.scan.keep import StepKeeper
from steptune.readers.scan.log import LogScan, scan_log
from steptune.readers.scan.votes import file_votes, setting_votes, winner
from steptune.readers.series import series_of, with_status


def read_paste(paths: Sequence[Path]) -> Paste:
    """Return everything that one job's files say.

    Raises:
        ReadError: a path cannot be opened.
    """
    heads = {str(path): head_lines(path) for path in paths}
    configs = [read_config(lines, path) for path, lines in heads.items()]
    settings = [setting for config in configs for setting in config.settings]
    devices = merged_devices(read_devices(lines, path) for path, lines in heads.items())
    name = winner(sum((file_votes(path) for path in paths), setting_votes(settings)))
    row = None if name is None else framework(name)
    keeper = StepKeeper()
    facts = FactFinder(version_pattern=row and row.version, trainer_pattern=row and row.trainer)
    scans = [scan_log(path, row, keeper, facts) for path in paths]
    return _paste(paths, row, configs, devices, keeper, facts, scans)


def merged_devices(claims: Iterable[DeviceClaim | None]) -> DeviceClaim | None:
    """The first statement of each kind, over all files."""
    merged: DeviceClaim | None = None
    for claim in claims:
        if merged is None or claim is None:
            merged = merged or claim
            continue
        stated = {key: getattr(merged, key) or getattr(claim, key) for key in ("name", "count", "memory_gib")}
        merged = merged.model_copy(update=stated)
    return merged


def _paste(
    paths: Sequence[Path],
    row: FrameworkReader | None,
    configs: Sequence[ConfigReading],
    devices: DeviceClaim | None,
    keeper: StepKeeper,
    facts: FactFinder,
    scans: Sequence[LogScan],
) -> Paste:
    records = keeper.kept()
    settings = tuple(setting for config in configs for setting in config.settings)
    card_gib = None if devices is None else devices.memory_gib
    job = job_facts(settings, version=facts.version, trainer=facts.trainer)
    reading = None if row is None else row.to_reading(records, job)
    stated: list[Series] = [with_status(series, card_gib=card_gib) for scan in scans for series in scan.series]
    logged = () if row is None else series_of(records, row.series, card_gib=card_gib)
    return Paste(
        paths=tuple(map(str, paths)),
        framework=None if row is None else row.name,
        framework_version=facts.version,
        settings=settings,
        series=(*logged, *stated),
        excerpts=tuple(excerpt for scan in scans for excerpt in scan.excerpts),
        devices=devices,
        profile=None if reading is None else reading.profile,
        notes=(
            *(() if reading is None else reading.notes),
            *_left_out(keeper),
            *(note for config in configs for note in config.notes),
        ),
        num_steps_seen=keeper.num_seen,
        num_lines=sum(scan.num_lines for scan in scans),
    )


def _left_out(keeper: StepKeeper) -> list[Note]:
    if not keeper.num_left_out:
        return []
    return [Note(text=f"{keeper.num_left_out} of {keeper.num_seen} steps were left out: only the last ones count")]
