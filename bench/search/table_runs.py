"""Runs of the embedded engine inside the bench's own process, so that a configuration costs no start-up of its own.

A synchronous run of one rank is a loop in one process anyway; a hundred of them one after the other in the same process
share its import of torch, which takes longer than five steps. The surprise: idle OpenMP threads must sleep as they do
in a run of its own, and that is read once, when torch loads: `with_short_spins` starts the script again.
"""

import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, final

from search_measured import Again, Regime, Row

from steptune.adapters.embedded.framework import EmbeddedFramework
from steptune.adapters.embedded.idle import ASLEEP, SHORT_SPIN
from steptune.core.framework import LaunchSpec
from steptune.core.knob import KnobValue, Settings
from steptune.core.profile import SampledLengths
from steptune.core.trial import EvalResult, Observation
from steptune.engine.knobs import EngineKnobs
from steptune.engine.serve import RunFile
from steptune.trial.blocks import WARMUP_STEPS, BlockPlan, mean_step_s, rotate_arms, run_block, warm_up

if TYPE_CHECKING:
    from steptune.engine.run import Run

NUM_LENGTH_STEPS = 3
"""Steps until the forced lengths repeat, and steps timed of every configuration: each table of lengths once."""
BASE_PLAN = BlockPlan(max_pairs=1, kept_steps=NUM_LENGTH_STEPS)
AGAIN_PLAN, AGAIN_ROUNDS = BlockPlan(max_pairs=5, kept_steps=2 * NUM_LENGTH_STEPS), 5
"""Five blocks of six: 30 steps of each."""


def with_short_spins() -> None:
    """Start this script again in an environment whose idle OpenMP threads spin shortly, unless it has one."""
    kept = {name: value for name, value in os.environ.items() if name not in ASLEEP}
    if {**kept, **SHORT_SPIN} != dict(os.environ):
        os.execve(sys.executable, [sys.executable, *sys.argv], {**kept, **SHORT_SPIN})


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class InProcess:
    """Implements `core.framework.Session` over a run of this process."""

    run: "Run"

    def run_steps(self, num_steps: int, *, rehearse_s: float = 0.0) -> list[Observation]:
        """Run steps; see `core.framework.Session`."""
        if rehearse_s > 0:
            self.run.rehearse(rehearse_s)
        return [self.run.step() for _ in range(num_steps)]

    def evaluate(self) -> EvalResult:
        """Held-out accuracy at the current weights."""
        return self.run.evaluate()

    def lengths(self) -> SampledLengths:
        """Lengths of every rollout so far."""
        return self.run.lengths()

    def close(self) -> None:
        """Close the run's files."""
        self.run.close()


def open_run(framework: EmbeddedFramework, regime: Regime, settings: Settings, folder: Path) -> InProcess:
    """Make a run of ``regime`` with its forced lengths."""
    from steptune.engine.run import Run

    values: dict[str, KnobValue] = dict(settings)
    folder.mkdir(parents=True, exist_ok=True)
    run = RunFile(
        job=regime.job,
        knobs=EngineKnobs.model_validate(values),
        seed=regime.job.algorithm.seed,
        forced_lengths=regime.lengths,
        capture_batches=0,
        start_path=framework.start(regime.job),
        parent_pid=os.getpid(),
    )
    return InProcess(run=Run(run, folder))


def open_baseline(framework: EmbeddedFramework, regime: Regime, settings: Settings, folder: Path) -> InProcess:
    """Return the baseline's run, warmed up: rows are timed against it."""
    session = open_run(framework, regime, settings, folder)
    warm_up([session])
    return session


def measure(
    framework: EmbeddedFramework, regime: Regime, settings: dict[str, KnobValue], base_s: float, folder: Path
) -> Row:
    """Time one configuration; ``base_s`` is the baseline's step of the last look at it."""
    session = open_run(framework, regime, settings, folder)
    try:
        session.run_steps(WARMUP_STEPS)
        steps = session.run_steps(NUM_LENGTH_STEPS)
    finally:
        session.close()
    return Row(settings=settings, steps_s=tuple(s.step_time_s for s in steps), base_s=base_s, last=steps[-1])


def time_baseline(session: InProcess) -> float:
    """Return the baseline's mean step in seconds, now."""
    return mean_step_s(run_block(session, BASE_PLAN))


def begin(
    framework: EmbeddedFramework, regime: Regime, settings: dict[str, KnobValue], num_steps: int, folder: Path
) -> Regime:
    """Add what a profile needs: naturally run steps of a run of its own, its start-up, accuracy and prices."""
    session = framework.launch(regime.job, LaunchSpec(settings=settings, seed=1), folder / "natural")
    try:
        start = session.evaluate()
        natural = tuple(session.run_steps(num_steps))
    finally:
        session.close()
    start_up_s = _start_up_s(framework, regime, settings, folder / "start_up")
    costs = framework.probe_costs(regime.job, folder / "probe")
    return regime.model_copy(update={"start": start, "natural": natural, "costs": costs, "start_up_s": start_up_s})


def _start_up_s(framework: EmbeddedFramework, regime: Regime, settings: Settings, folder: Path) -> float:
    before_s = time.monotonic()
    session = framework.launch(regime.job, LaunchSpec(settings=dict(settings), seed=1), folder)
    try:
        (step,) = session.run_steps(1)
        return max(0.0, time.monotonic() - before_s - step.step_time_s)
    finally:
        session.close()


def again(framework: EmbeddedFramework, regime: Regime, group: Sequence[Row], folder: Path) -> tuple[Again, ...]:
    """Measure some configurations and the baseline in turn, all of them resident."""
    sessions: list[InProcess] = []
    try:
        for i, row in enumerate([regime.rows[0], *group]):
            sessions.append(open_run(framework, regime, row.settings, folder / str(i)))
        warm_up(sessions)
        arms = rotate_arms(sessions, AGAIN_ROUNDS, AGAIN_PLAN)
    finally:
        for session in sessions:
            session.close()
    base_s, *means_s = [mean_step_s([step for block in blocks for step in block]) for blocks in arms]
    num_steps = AGAIN_ROUNDS * AGAIN_PLAN.kept_steps
    return tuple(
        Again(settings=row.settings, ratio=s / base_s, num_steps=num_steps)
        for row, s in zip(group, means_s, strict=True)
    )
