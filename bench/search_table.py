"""Measures a table of the embedded engine's configurations in three regimes: the oracle of `bench/search.py`.

`python bench/search_table.py --minutes 8` works for at most that long, keeps what it has after every configuration
and goes on where it was; about four such blocks on two cores make the table whole: 176 configurations, then of each
regime's fastest ten, and of the ten behind them, thirty more steps in turn with the baseline, because the luckiest
reading of many is no optimum.
`--quick` measures two of the first regime and writes nothing but a table named by `--out`. Lengths are forced, so a
regime is its table of lengths: short and nearly equal, a long tail, and a model with experts. All runs live in this
process, one at a time; a configuration that took it down twice is left out.
"""

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import nullcontext
from itertools import product
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "search"))

from search_measured import Lost, Pending, Regime, Row, Table, key_of  # noqa: E402
from table_runs import (  # noqa: E402
    AGAIN_PLAN,
    AGAIN_ROUNDS,
    NUM_LENGTH_STEPS,
    InProcess,
    again,
    begin,
    measure,
    open_baseline,
    time_baseline,
    with_short_spins,
)

from steptune.adapters.embedded.framework import EmbeddedFramework  # noqa: E402
from steptune.cli.frameworks import cache_dir  # noqa: E402
from steptune.core.errors import StepTuneError  # noqa: E402
from steptune.core.job import JobSpec, KnobsSpec  # noqa: E402
from steptune.core.knob import KnobValue  # noqa: E402
from steptune.core.profile import SampledLengths  # noqa: E402
from steptune.store.files import replace  # noqa: E402
from steptune.store.job_file import load_job  # noqa: E402
from steptune.store.lock import machine_lock  # noqa: E402
from steptune.trial.blocks import REHEARSAL_S, WARMUP_STEPS  # noqa: E402

OUT = HERE / "results" / "search_table.json"
NATURAL_STEPS = 8
NUM_AGAIN, AT_ONCE = 20, 10
"""Fastest configurations measured again, and how many of them take turns with the baseline at once."""
LOOK_EVERY = 8
"""Configurations between two looks at the baseline."""
BEGIN_S = 90.0
"""Seconds kept for what a profile needs: SFT start from the cache, evaluation, natural steps, prices."""
FIRST_ROW_S = 10.0
"""Seconds kept for a configuration before one was timed: the import of torch and the baseline's run included."""
ROOM = 1.3
"""What a piece of work may take beyond its estimate."""
MAX_STARTS = 2
"""Times a configuration may take the process down; once may have been somebody who ended it."""

DENSE = ("layout", "recompute", "compact_finished", "share_prefill", "train_dtype")
EXPERTS = ("layout", "recompute", "compact_finished", "moe_dispatch")
REGIMES = {
    "short, nearly equal": ("math-dense.toml", 12.0, 0.1, DENSE),
    "long tail": ("math-dense.toml", 14.0, 0.8, DENSE),
    "experts": ("math-moe.toml", 12.0, 0.4, EXPERTS),
}
"""Job, median of lognormal lengths and its spread, knobs that are measured in full."""

QUICK_SFT_STEPS = 2
"""A start that has learnt nothing runs as fast; the whole table's can also learn, which a search's health gate asks."""

Fits = Callable[[float], bool]
"""Whether a piece of work of so many seconds may still begin."""


def regime_of(name: str, *, is_quick: bool) -> Regime:
    """Return an empty regime."""
    file, median, spread, knobs = REGIMES[name]
    job = load_job(HERE.parent / "examples" / file)
    sft = job.sft.model_copy(update={"num_steps": QUICK_SFT_STEPS}) if is_quick else job.sft
    job = job.model_copy(update={"knobs": KnobsSpec(allow=knobs), "sft": sft})
    rng, algorithm = random.Random(name), job.algorithm
    count = NUM_LENGTH_STEPS * algorithm.rollouts_per_step
    drawn = [round(median * rng.lognormvariate(0, spread)) for _ in range(count)]
    lengths = SampledLengths(
        prompt=(16,) * count,
        completion=tuple(min(algorithm.max_completion_len, max(2, n)) for n in drawn),
        rollouts_per_step=algorithm.rollouts_per_step,
    )
    return Regime(job=job, lengths=lengths)


def configurations(framework: EmbeddedFramework, job: JobSpec) -> list[dict[str, KnobValue]]:
    """Return every configuration of the allowed knobs that can run, the baseline first."""
    baseline = {lever.knob: lever.value for lever in framework.baseline(job, "default")}
    specs = [spec for spec in framework.knobs(job) if spec.name in job.knobs.allow]
    values = [list(dict.fromkeys([baseline[spec.name], *spec.values])) for spec in specs]
    made = [{**baseline, **dict(zip([s.name for s in specs], each, strict=True))} for each in product(*values)]
    return [settings for settings in made if not framework.conflicts(job, settings)]


def work(framework: EmbeddedFramework, table: Table, folder: Path, fits: Fits, num_rows: int | None) -> Iterator[Table]:
    """Yield the table before and after every piece of work that it lacked, as long as the next one fits."""
    table = without_pending(table)
    for name in list(REGIMES)[: None if num_rows is None else 1]:
        regime = table.regimes.get(name) or regime_of(name, is_quick=num_rows is not None)
        every = configurations(framework, regime.job)[:num_rows]
        if not regime.costs:
            if not fits(BEGIN_S):
                return
            num_steps = NATURAL_STEPS if num_rows is None else 2
            regime = begin(framework, regime, every[0], num_steps, folder / name / "begin")
            table = with_regime(table, name, regime)
            yield table
        table = yield from time_rows(framework, table, name, every, folder / name, fits)
        if len(table.regimes[name].rows) + len(table.regimes[name].lost) < len(every):
            return
    for num_again in range(AT_ONCE, NUM_AGAIN + AT_ONCE, AT_ONCE):
        for name in table.regimes:
            table = yield from time_again(framework, table, name, num_again, folder / name, fits)


def time_rows(
    framework: EmbeddedFramework,
    table: Table,
    name: str,
    every: list[dict[str, KnobValue]],
    folder: Path,
    fits: Fits,
) -> Generator[Table, None, Table]:
    """Time every configuration that has neither a row nor a cause, as long as the next one fits.

    Each is named before it begins, with how often it has begun.
    """
    regime = table.regimes[name]
    known = {key_of(each.settings) for each in (*regime.rows, *regime.lost)}
    todo = [settings for settings in every if key_of(settings) not in known]
    base: InProcess | None = None
    base_s, took_s = 0.0, 0.0
    try:
        for number, settings in enumerate(todo):
            if not fits(ROOM * max(took_s, FIRST_ROW_S)):
                break
            if base is None:
                base = open_baseline(framework, regime, every[0], folder / f"base-{time.monotonic_ns()}")
            if number % LOOK_EVERY == 0:
                base_s = time_baseline(base)
            yield table.model_copy(update={"pending": started(table.pending, settings)})
            before_s = time.monotonic()
            made = row_or_loss(framework, regime, settings, base_s, folder / f"{time.monotonic_ns()}")
            took_s = max(time.monotonic() - before_s, (NUM_LENGTH_STEPS + WARMUP_STEPS) * base_s)
            kept = {"rows": (*regime.rows, made)} if isinstance(made, Row) else {"lost": (*regime.lost, made)}
            regime = regime.model_copy(update=kept)
            table = with_regime(table, name, regime)
            yield table
    finally:
        if base is not None:
            base.close()
    return table


def started(before: Pending | None, settings: dict[str, KnobValue]) -> Pending:
    """Return what says that a configuration begins now."""
    is_same = before is not None and key_of(before.settings) == key_of(settings)
    return Pending(settings=settings, num_starts=1 + (before.num_starts if before is not None and is_same else 0))


def row_or_loss(
    framework: EmbeddedFramework, regime: Regime, settings: dict[str, KnobValue], base_s: float, folder: Path
) -> Row | Lost:
    """Time one configuration; one that fails is a result too."""
    try:
        return measure(framework, regime, settings, base_s, folder)
    except (StepTuneError, MemoryError, RuntimeError) as error:
        return Lost(settings=settings, why=f"{type(error).__name__}: {error}")


def time_again(
    framework: EmbeddedFramework, table: Table, name: str, num_again: int, folder: Path, fits: Fits
) -> Generator[Table, None, Table]:
    """Measure the ``num_again`` fastest of a regime again, those that were not yet, if it fits."""
    regime = table.regimes[name]
    group = sorted(regime.rows[1:], key=lambda row: row.ratio)[len(regime.again) : num_again]
    if group and fits(ROOM * again_s([regime.rows[0], *group])):
        made = again(framework, regime, group, folder / f"again-{time.monotonic_ns()}")
        table = with_regime(table, name, regime.model_copy(update={"again": (*regime.again, *made)}))
        yield table
    return table


def again_s(rows: list[Row]) -> float:
    """Return the seconds that measuring these again will take: warm-up, and blocks with their rehearsals."""
    num_steps = WARMUP_STEPS + AGAIN_ROUNDS * AGAIN_PLAN.kept_steps
    return sum(num_steps * row.mean_s + AGAIN_ROUNDS * (REHEARSAL_S + row.mean_s) for row in rows)


def without_pending(table: Table) -> Table:
    """Return the table with what twice took the process down among the lost of the regime that was being timed."""
    if table.pending is None or table.pending.num_starts < MAX_STARTS:
        return table
    name = next(n for n in reversed(REGIMES) if n in table.regimes)
    regime = table.regimes[name]
    lost = Lost(settings=table.pending.settings, why=f"started {MAX_STARTS} times, and the process outlived none")
    return with_regime(table, name, regime.model_copy(update={"lost": (*regime.lost, lost)}))


def with_regime(table: Table, name: str, regime: Regime) -> Table:
    """Return the table with one regime replaced, and nothing pending."""
    return table.model_copy(update={"regimes": {**table.regimes, name: regime}, "pending": None})


def read(path: Path, *, is_quick: bool) -> Table:
    """Return the table so far; one of other jobs than this script's is refused."""
    if not path.exists():
        return Table(date=time.strftime("%Y-%m-%d"), machine="2 cores, CPU", regimes={})
    table = Table.model_validate_json(path.read_bytes())
    other = [name for name, regime in table.regimes.items() if regime.job != regime_of(name, is_quick=is_quick).job]
    if other:
        sys.exit(f"{path} holds another job under {', '.join(other)}; hint: move it away, or name another --out")
    return table


def main() -> None:
    """Measure until the time is up."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=8.0, help="how long to work at most")
    parser.add_argument("--quick", action="store_true", help="two configurations of one regime, nothing written")
    parser.add_argument("--out", type=Path, default=OUT, help="where the table is kept")
    given = parser.parse_args()
    with_short_spins()
    deadline_s = time.monotonic() + 60 * given.minutes
    is_kept = not given.quick or given.out != OUT
    table = read(given.out, is_quick=given.quick) if is_kept else Table(date="", machine="", regimes={})
    framework = EmbeddedFramework(cache_dir=cache_dir())
    is_late = False

    def fits(seconds: float) -> bool:
        nonlocal is_late
        is_late = is_late or time.monotonic() + seconds > deadline_s
        return not is_late

    lock = machine_lock(lambda pid, s: print(f"waiting for process {pid}", file=sys.stderr) if s == 0 else None)
    with tempfile.TemporaryDirectory() as root, nullcontext() if given.quick else lock:
        for now in work(framework, table, Path(root), fits, 2 if given.quick else None):
            table = now
            if is_kept:
                replace(given.out, table.model_dump_json() + "\n")
            if table.pending is None:
                print(told(table), file=sys.stderr)
    print("the time is up; run it again to go on" if is_late else "the table is whole", file=sys.stderr)


def told(table: Table) -> str:
    """Return how far it is."""
    counts = ((name, len(r.rows), len(r.lost), len(r.again)) for name, r in table.regimes.items())
    return "; ".join(f"{name}: {rows} rows, {lost} lost, {again} again" for name, rows, lost, again in counts)


if __name__ == "__main__":
    main()
