"""Measures a table of the embedded engine's configurations in three regimes: the oracle of `bench/search.py`.

`python bench/search_table.py --minutes 25` measures for that long, keeps what it has and goes on where it was; a whole
table takes about 35 minutes on two cores (176 configurations and, of each regime's fastest 20, 30 more steps beside the
baseline). `--quick` measures two of the first regime and writes nothing but a table named by `--out`. Lengths are
forced, so a regime is its table of lengths: short and nearly equal, a long tail, and a model with experts. One process
at a time is timed; the fastest are measured again because the luckiest reading of many is no optimum.
"""

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "search"))

from search_measured import Again, Regime, Row, Table, key_of  # noqa: E402

from steptune.adapters.embedded.framework import EmbeddedFramework  # noqa: E402
from steptune.cli.frameworks import cache_dir  # noqa: E402
from steptune.core.framework import LaunchSpec  # noqa: E402
from steptune.core.job import JobSpec, KnobsSpec  # noqa: E402
from steptune.core.knob import KnobValue  # noqa: E402
from steptune.core.profile import SampledLengths  # noqa: E402
from steptune.core.trial import Observation  # noqa: E402
from steptune.store.files import replace  # noqa: E402
from steptune.store.job_file import load_job  # noqa: E402
from steptune.store.lock import machine_lock  # noqa: E402
from steptune.trial.blocks import WARMUP_STEPS, BlockPlan, rotate_arms, warm_up  # noqa: E402

OUT = HERE / "results" / "search_table.json"
NUM_LENGTH_STEPS = 4
"""Steps until the forced lengths repeat, and steps measured of every configuration."""
NATURAL_STEPS = 8
NUM_AGAIN, AT_ONCE = 20, 5
"""Fastest configurations measured again, and how many of them run at once beside the baseline."""
AGAIN_PLAN, AGAIN_ROUNDS = BlockPlan(max_pairs=8, kept_steps=4), 8
"""Eight blocks of four: 32 steps of each."""

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


def launch_spec(regime: Regime, settings: dict[str, KnobValue]) -> LaunchSpec:
    """Return how an arm is launched."""
    return LaunchSpec(settings=settings, seed=regime.job.algorithm.seed, forced_lengths=regime.lengths)


def measure(framework: EmbeddedFramework, regime: Regime, settings: dict[str, KnobValue], folder: Path) -> Row:
    """Time one configuration."""
    before_s = time.monotonic()
    session = framework.launch(regime.job, launch_spec(regime, settings), folder)
    try:
        warm = session.run_steps(WARMUP_STEPS)
        start_up_s = time.monotonic() - before_s - sum(step.step_time_s for step in warm)
        steps = session.run_steps(NUM_LENGTH_STEPS)
    finally:
        session.close()
    return Row(
        settings=settings, steps_s=tuple(s.step_time_s for s in steps), last=steps[-1], start_up_s=max(0.0, start_up_s)
    )


def begin(framework: EmbeddedFramework, regime: Regime, folder: Path, num_steps: int) -> Regime:
    """Add what a profile needs: naturally run steps, accuracy, prices."""
    settings = configurations(framework, regime.job)[0]
    session = framework.launch(regime.job, LaunchSpec(settings=settings, seed=1), folder / "natural")
    try:
        start = session.evaluate()
        natural = tuple(session.run_steps(num_steps))
    finally:
        session.close()
    costs = framework.probe_costs(regime.job, folder / "probe")
    return regime.model_copy(update={"start": start, "natural": natural, "costs": costs})


def again(framework: EmbeddedFramework, regime: Regime, group: list[Row], folder: Path) -> tuple[Again, ...]:
    """Measure some configurations and the baseline in turn."""
    sessions = [
        framework.launch(regime.job, launch_spec(regime, row.settings), folder / str(i))
        for i, row in enumerate([regime.rows[0], *group])
    ]
    try:
        warm_up(sessions)
        arms = rotate_arms(sessions, AGAIN_ROUNDS, AGAIN_PLAN)
    finally:
        for session in sessions:
            session.close()
    base_s, *means_s = [_mean_s([step for block in blocks for step in block]) for blocks in arms]
    num_steps = AGAIN_ROUNDS * AGAIN_PLAN.kept_steps
    return tuple(
        Again(settings=row.settings, ratio=s / base_s, num_steps=num_steps)
        for row, s in zip(group, means_s, strict=True)
    )


def _mean_s(steps: list[Observation]) -> float:
    return sum(step.step_time_s for step in steps) / len(steps)


def work(framework: EmbeddedFramework, table: Table, folder: Path, num_rows: int | None) -> Iterator[Table]:
    """Yield the table after every piece of work that it lacked."""
    for name in list(REGIMES)[: None if num_rows is None else 1]:
        regime = table.regimes.get(name) or regime_of(name, is_quick=num_rows is not None)
        if not regime.costs:
            regime = begin(framework, regime, folder / name / "begin", NATURAL_STEPS if num_rows is None else 2)
            table = _with(table, name, regime)
            yield table
        known = {key_of(row.settings) for row in regime.rows}
        for number, settings in enumerate(configurations(framework, regime.job)[:num_rows]):
            if key_of(settings) not in known:
                row = measure(framework, regime, settings, folder / name / f"{number}-{time.monotonic_ns()}")
                regime = regime.model_copy(update={"rows": (*regime.rows, row)})
                table = _with(table, name, regime)
                yield table
        fastest = sorted(regime.rows[1:], key=lambda row: row.mean_s)[: NUM_AGAIN if num_rows is None else 1]
        while len(regime.again) < len(fastest):
            first = len(regime.again)
            group = fastest[first : first + AT_ONCE]
            made = again(framework, regime, group, folder / name / f"again-{first}-{time.monotonic_ns()}")
            regime = regime.model_copy(update={"again": (*regime.again, *made)})
            table = _with(table, name, regime)
            yield table


def _with(table: Table, name: str, regime: Regime) -> Table:
    return table.model_copy(update={"regimes": {**table.regimes, name: regime}})


def main() -> None:
    """Measure until the time is up."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=25.0, help="how long to work")
    parser.add_argument("--quick", action="store_true", help="two configurations of one regime, nothing written")
    parser.add_argument("--out", type=Path, default=OUT, help="where the table is kept")
    given = parser.parse_args()
    deadline_s = time.monotonic() + 60 * given.minutes
    is_kept = not given.quick or given.out != OUT
    table = Table.model_validate_json(given.out.read_bytes()) if is_kept and given.out.exists() else None
    table = table or Table(date=time.strftime("%Y-%m-%d"), machine="2 cores, CPU", regimes={})
    framework = EmbeddedFramework(cache_dir=cache_dir())
    with (
        tempfile.TemporaryDirectory() as root,
        machine_lock(lambda pid, s: print(f"waiting for process {pid}", file=sys.stderr) if s == 0 else None),
    ):
        for now in work(framework, table, Path(root), 2 if given.quick else None):
            table = now
            if is_kept:
                replace(given.out, table.model_dump_json() + "\n")
            counts = {name: f"{len(r.rows)} rows, {len(r.again)} again" for name, r in table.regimes.items()}
            print(counts, file=sys.stderr)
            if time.monotonic() > deadline_s:
                print("the time is up; run it again to go on", file=sys.stderr)
                return
    print("the table is whole", file=sys.stderr)


if __name__ == "__main__":
    main()
