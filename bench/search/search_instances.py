"""What is searched: a drawn space under one condition of the forecast, as a session on the fake framework.

The oracle evaluates every configuration at once: a step is two sums of log factors, laid out over the knobs' axes.
"""

import math
import tempfile
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from search_measured import Regime, Table, TableFramework

from steptune.adapters.embedded.framework import EmbeddedFramework
from steptune.core.job import BudgetSpec, CpuDevices, JobSpec, LimitsSpec
from steptune.core.knob import KnobValue, Settings
from steptune.core.phase import Role
from steptune.store.run_folder import RunFolder
from steptune.testing.fake_framework import FakeFramework
from steptune.testing.fake_space import ROLLOUT_S, TRAIN_S, FakeKnob
from steptune.testing.search_spaces import SHAPES, draw_space, misled
from steptune.tune.baseline import name_bottlenecks, profile_baseline
from steptune.tune.context import Context, make_context
from steptune.tune.session import record_start

START_UP_STEPS = 20.0
"""A relaunch, in steps of the baseline."""
STEP_NOISE, LAUNCH_NOISE = 0.03, 0.01
"""Standard deviations of the log step time: within a launch and between launches."""
MAX_STEPS = 400.0
"""Where every search is cut off, in steps of the baseline, the profile not counted."""
MAX_TRIALS = 12
"""More than what MAX_STEPS pay for, unless launches die."""
TABLE = "table: "
"""What the shapes that were measured on the embedded engine begin with."""
TABLE_FILE = Path(__file__).resolve().parents[1] / "results" / "search_table.json"
MEMORY_FOLDER = Path("/dev/shm")
"""Run folders need no disk."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Condition:
    """How the forecast errs."""

    error: float
    bias: float = 0.0
    misbooked: float = 0.0


CONDITIONS = {
    "error 5 %": Condition(error=0.05),
    "error 10 %": Condition(error=0.10),
    "error 20 %": Condition(error=0.20),
    "error 10 %, biased": Condition(error=0.10, bias=0.08),
    "error 5 %, wrong bottleneck": Condition(error=0.05, misbooked=0.6),
}
"""Bias: every move is believed 8 % faster than it is. Wrong bottleneck: 60 % of the rollout shows as training."""
USUAL = "error 10 %"

JOB = JobSpec(
    name="search",
    framework="fake",
    devices=CpuDevices(num_cores=1),
    limits=LimitsSpec(max_staleness=1, allow_corrections=True),
    budget=BudgetSpec(max_trials=MAX_TRIALS, device_time_s=1e9, wall_time_s=1e9),
)


EPOCH = datetime(2030, 1, 1, tzinfo=UTC)


class VirtualClock:
    """The framework's spent seconds, as the date of a journal's lines."""

    def __init__(self, framework: FakeFramework | TableFramework) -> None:
        self.framework = framework

    def __call__(self) -> datetime:
        """Tell the virtual time."""
        return EPOCH + timedelta(seconds=self.framework.spent_s)


def virtual_s(time: str) -> float:
    """Return the spent seconds that a journal's line was dated with."""
    return (datetime.fromisoformat(time) - EPOCH).total_seconds()


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """A profiled session and what is true of its space."""

    context: Context
    true_ratio: Callable[[Settings], float]
    step_s: float
    """The baseline's step in virtual seconds, without noise."""
    best: float
    """Best possible speed-up."""


def profiled(shape: str, seed: int, condition: str) -> AbstractContextManager[Case]:
    """Return a session whose baseline is profiled and whose budget ends MAX_STEPS later."""
    if shape.startswith(TABLE):
        return _measured(shape.removeprefix(TABLE), seed)
    return _made_up(shape, seed, CONDITIONS[condition])


def shapes_there() -> list[str]:
    """Return every shape that can be run: those that are made up, and the regimes of a whole table."""
    whole = [name for name, regime in measured_table().items() if regime.again]
    return [*SHAPES, *(TABLE + name for name in whole)]


@lru_cache(maxsize=1)
def measured_table() -> dict[str, Regime]:
    """Return the regimes of the measured table; none where it was not measured."""
    return Table.model_validate_json(TABLE_FILE.read_bytes()).regimes if TABLE_FILE.exists() else {}


@contextmanager
def _measured(name: str, seed: int) -> Generator[Case]:
    regime = measured_table()[name]
    framework = TableFramework(regime=regime, seed=seed, engine=EmbeddedFramework(cache_dir=Path("unused")))
    wanted = {"wall_time_s": 1e9, "device_time_s": 1e9, "max_trials": MAX_TRIALS}
    job = regime.job.model_copy(update={"budget": regime.job.budget.model_copy(update=wanted)})
    step_s = regime.rows[0].mean_s
    with session(framework, job, step_s) as context:
        best = best_speedup(TABLE + name, seed)
        yield Case(context=context, true_ratio=framework.true_ratio, step_s=step_s, best=best)


@contextmanager
def _made_up(shape: str, seed: int, how: Condition) -> Generator[Case]:
    space = misled(draw_space(shape, seed), how.error, bias=how.bias)
    framework = FakeFramework(
        knob_table=space.knobs,
        pairs=space.pairs,
        noise=STEP_NOISE,
        launch_noise=LAUNCH_NOISE,
        seed=seed,
        start_up_s=START_UP_STEPS * (ROLLOUT_S + TRAIN_S),
        misbooked_frac=how.misbooked,
        sides=frozenset({Role.ROLLOUT, Role.TRAINER}),
        keeps_worker=True,
    )
    with session(framework, JOB, ROLLOUT_S + TRAIN_S) as context:
        best = best_speedup(shape, seed)
        yield Case(context=context, true_ratio=space.true_ratio, step_s=ROLLOUT_S + TRAIN_S, best=best)


@contextmanager
def session(framework: FakeFramework | TableFramework, job: JobSpec, step_s: float) -> Generator[Context]:
    """Yield a session on ``framework`` whose baseline is profiled and whose budget ends MAX_STEPS later."""
    where = MEMORY_FOLDER if MEMORY_FOLDER.is_dir() else None
    with tempfile.TemporaryDirectory(dir=where) as root:
        clock = VirtualClock(framework)
        folder = RunFolder.create(Path(root), job, clock)
        context = make_context(job, framework, folder, clock, clock_s=lambda: framework.spent_s)
        context.progress.out = open("/dev/null", "w")  # noqa: SIM115
        try:
            record_start(context)
            profile_baseline(context, is_capped=False)
            name_bottlenecks(context)
            limit = {"wall_time_s": framework.spent_s + MAX_STEPS * step_s}
            context.budget.spec = job.budget.model_copy(update=limit)
            yield context
        finally:
            context.runs.stop()
            context.progress.out.close()


@lru_cache(maxsize=64)
def ratios_of(shape: str, seed: int) -> NDArray[np.float64]:
    """Return the true ratio of every configuration, one axis a knob; infinite where it cannot run."""
    space = draw_space(shape, seed)
    logs = {Role.ROLLOUT: np.zeros((1,) * len(space.knobs)), Role.TRAINER: np.zeros((1,) * len(space.knobs))}
    dead = np.zeros((1,) * len(space.knobs), dtype=bool)
    for axis, knob in enumerate(space.knobs):
        logs[knob.side] = logs[knob.side] + _along(axis, len(space.knobs), [math.log(f) for f in knob.factors.values()])
        if knob.across:
            other = Role.TRAINER if knob.side is Role.ROLLOUT else Role.ROLLOUT
            logs[other] = logs[other] + _along(axis, len(space.knobs), [math.log(f) for f in knob.across.values()])
        dead = dead | _along(axis, len(space.knobs), [float(v in knob.fails_with) for v in knob.factors]).astype(bool)
    for pair in space.pairs:
        mask = _is(space.knobs, *pair.first) & _is(space.knobs, *pair.second)
        logs[pair.side] = logs[pair.side] + mask * math.log(pair.factor)
    rollout_s, train_s = ROLLOUT_S * np.exp(logs[Role.ROLLOUT]), TRAIN_S * np.exp(logs[Role.TRAINER])
    ratio = rollout_s + train_s
    if any(k.name == "schedule" for k in space.knobs):
        is_off = _is(space.knobs, "schedule", "one_step_off")
        ratio = np.where(is_off, np.maximum(rollout_s, train_s), ratio)
        dead = dead | (is_off != _is(space.knobs, "correction", "tis"))
    shape_of = tuple(len(k.factors) for k in space.knobs)
    return np.where(dead, math.inf, np.broadcast_to(ratio, shape_of))


def best_speedup(shape: str, seed: int) -> float:
    """Return the best possible speed-up; of a measured table, as it was measured again."""
    if shape.startswith(TABLE):
        return max(1.0, *(1 / each.ratio for each in measured_table()[shape.removeprefix(TABLE)].again))
    return float(1 / np.min(ratios_of(shape, seed)))


def best_fixed_ratio(shape: str, seeds: range) -> dict[int, float]:
    """Return, per seed, the ratio of the one configuration that is best on average (log) over all seeds.

    Of a measured table: over all regimes, moving the knobs that every regime moves.
    """
    if shape.startswith(TABLE):
        return dict.fromkeys(seeds, _best_fixed_of_regimes()[shape.removeprefix(TABLE)])
    total = np.sum([np.log(ratios_of(shape, seed)) for seed in seeds], axis=0)
    place = np.unravel_index(int(np.argmin(total)), total.shape)
    return {seed: float(ratios_of(shape, seed)[place]) for seed in seeds}


def _best_fixed_of_regimes() -> dict[str, float]:
    regimes = {
        name: TableFramework(regime=r, seed=0, engine=EmbeddedFramework(cache_dir=Path("unused")))
        for name, r in measured_table().items()
    }
    common = set.intersection(*(set(f.regime.job.knobs.allow) for f in regimes.values()))
    ratios: dict[str, dict[str, float]] = {}
    for name, framework in regimes.items():
        baseline = framework.regime.rows[0].settings
        for row in framework.regime.rows:
            moved = {knob: value for knob, value in row.settings.items() if value != baseline[knob]}
            if set(moved) <= common:
                fixed = str({knob: row.settings[knob] for knob in sorted(common)})
                ratios.setdefault(fixed, {})[name] = framework.true_ratio(row.settings)
    everywhere = [each for each in ratios.values() if len(each) == len(regimes)]
    return min(everywhere, key=lambda each: math.prod(each.values()))


def _is(knobs: tuple[FakeKnob, ...], name: str, value: KnobValue) -> NDArray[np.bool_]:
    axis = next(i for i, k in enumerate(knobs) if k.name == name)
    return _along(axis, len(knobs), [float(v == value) for v in knobs[axis].factors]).astype(bool)


def _along(axis: int, num_axes: int, values: list[float]) -> NDArray[np.float64]:
    return np.array(values).reshape([-1 if i == axis else 1 for i in range(num_axes)])
