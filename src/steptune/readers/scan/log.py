"""One pass over a text file: steps for the framework's reader, and on the way everything else that is worth keeping."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import final

from steptune.core.paste import Excerpt, Series
from steptune.readers.facts import FactFinder
from steptune.readers.lines import NumberedLine, clean
from steptune.readers.reading import FrameworkReader
from steptune.readers.scan.chunks import read_chunks
from steptune.readers.scan.excerpts import LONE, LONE_AT_EDGES, WITH_CONTEXT, ExcerptCollector
from steptune.readers.scan.keep import StepKeeper
from steptune.readers.scan.pick import LineTally, Needles, pick_lines
from steptune.readers.scan.sleep import SleepWatcher


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class LogScan:
    """What one text file gave besides its steps."""

    num_lines: int
    excerpts: tuple[Excerpt, ...]
    series: tuple[Series, ...]


def scan_log(path: Path, row: FrameworkReader | None, keeper: StepKeeper, facts: FactFinder) -> LogScan:
    """Read ``path`` once; its steps go to ``keeper``, version and trainer to ``facts``.

    Raises:
        ReadError: the file cannot be opened.
    """
    tally = LineTally()
    excerpts, sleep = ExcerptCollector(path=str(path)), SleepWatcher(path=str(path))
    picked = pick_lines(read_chunks(path), _needles(row), tally)
    lines = _observed(picked, excerpts, sleep, facts)
    keeper.take(() if row is None else row.read_steps(lines, str(path)))
    for _ in lines:
        pass
    return LogScan(num_lines=tally.num_lines, excerpts=excerpts.excerpts(), series=sleep.series())


def _needles(row: FrameworkReader | None) -> Needles:
    if row is None:
        return Needles(wanted=WITH_CONTEXT, lone=LONE, lone_at_edges=LONE_AT_EDGES)
    return Needles(
        wanted=(*row.wanted, *WITH_CONTEXT),
        wanted_at_edges=row.wanted_at_edges,
        lone=LONE,
        lone_at_edges=(*row.fact_needles, *LONE_AT_EDGES),
    )


def _observed(
    lines: Iterable[NumberedLine], excerpts: ExcerptCollector, sleep: SleepWatcher, facts: FactFinder
) -> Iterator[NumberedLine]:
    for number, raw in lines:
        text = clean(raw)
        excerpts.take(number, text)
        sleep.take(number, raw)
        facts.take(raw)
        yield number, raw
