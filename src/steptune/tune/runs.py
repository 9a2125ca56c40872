"""The live runs of a session: a start-up is paid once and used as often as the framework allows.

::

    launch(spec) --> a waiting run of the same spec?         brought back, and warm already     (the framework rewinds)
                 --> one that differs by hot knobs only?     shared: both arms in one launch    (it takes settings)
                 --> else                                    a new run, whose start-up is measured

A run that is closed waits; `keep_only` and `stop` end what nobody will need again. A framework that can neither rewind
nor take settings gets a new run every time, as the embedded engine does: its start costs as much as two or three steps.
"""

import math
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import final

from steptune.core.ages import Ages
from steptune.core.errors import BudgetSpentError
from steptune.core.framework import Framework, LaunchSpec, Rewinds, Session, TakesSettings
from steptune.core.job import JobSpec
from steptune.core.knob import KnobSpec, KnobValue, Restart
from steptune.core.profile import SampledLengths
from steptune.core.trial import EvalResult, Observation

UNKNOWN_START_UP_STEPS = 5.0
"""Start-up in baseline steps before any was measured (a resumed session): the embedded engine's is two or three."""


@dataclass(kw_only=True, slots=True)
class LiveRun:
    """One running job."""

    session: Session
    spec: LaunchSpec
    """As it was launched."""
    settings: dict[str, KnobValue]
    """As it runs now."""
    launch_s: float
    """Seconds that the launch itself took; loading may go on behind it."""
    last: Observation | None = None
    """Latest step; None before the first."""
    longest_s: float = 0.0
    """Longest step so far."""
    is_broken: bool = False
    is_fresh: bool = False
    """Whether it was launched to be nobody else's."""
    num_holders: int = 0


@final
@dataclass(kw_only=True, slots=True)
class Runs:
    """See the module docstring."""

    framework: Framework
    hot: frozenset[str]
    """Knobs that are turned without a relaunch."""
    clock: Callable[[], float]
    """Seconds; what start-ups are measured with."""
    wall_left_s: Callable[[], float] = lambda: math.inf
    """Wall seconds that the budget still has for the running stage."""
    is_capped: bool = False
    """Whether the budget ends runs, as the search wants; a profile runs to its end, for advice needs no budget."""
    is_spent: bool = False
    """Whether the budget has ended a run."""
    start_ups_s: list[float] = field(default_factory=list[float])
    _live: list[LiveRun] = field(default_factory=list[LiveRun])

    @property
    def start_up_s(self) -> float | None:
        """Mean seconds from a launch to its first step, the step not included; None before the first."""
        return sum(self.start_ups_s) / len(self.start_ups_s) if self.start_ups_s else None

    def start_up_steps(self, step_s: float) -> float:
        """Mean start-up in steps of ``step_s`` seconds."""
        return UNKNOWN_START_UP_STEPS if self.start_up_s is None else self.start_up_s / step_s

    @property
    def num_live(self) -> int:
        """Runs that are up, waiting ones included."""
        return len(self._live)

    @property
    def can_turn(self) -> bool:
        """Whether a live run takes hot knobs."""
        return any(isinstance(run.session, TakesSettings) and not run.is_broken for run in self._live)

    def launch(self, job: JobSpec, spec: LaunchSpec, out_dir: Path) -> "Lease":
        """Return a run of ``spec``: a waiting one, a shared one or a new one.

        Raises:
            TrialError: a new run could not be started.
            MemoryError: it ran out of memory.
            BudgetSpentError: nothing is left.
        """
        self.check_budget(0, 0.0)
        waiting = self._waiting(spec)
        run = waiting or self._shared(spec) or self._new(job, spec, out_dir)
        run.num_holders += 1
        return Lease(runs=self, run=run, spec=spec, has_waited=waiting is not None)

    def launch_fresh(self, job: JobSpec, spec: LaunchSpec, out_dir: Path) -> "Lease":
        """Return a new run that serves nobody else, under the same budget; raises as `launch`."""
        run = self._new(job, spec, out_dir)
        run.is_fresh, run.num_holders = True, 1
        return Lease(runs=self, run=run, spec=spec)

    def _new(self, job: JobSpec, spec: LaunchSpec, out_dir: Path) -> LiveRun:
        """Start a run, unless the budget would end before its first step began."""
        self.check_budget(2, self.start_up_s or 0.0)
        before_s = self.clock()
        session = self.framework.launch(job, spec, out_dir)
        run = LiveRun(session=session, spec=spec, settings=spec.settings, launch_s=self.clock() - before_s)
        self._live.append(run)
        return run

    def check_budget(self, num_steps: int, step_s: float) -> None:
        """Refuse steps that would end more than one step after the budget.

        Raises:
            BudgetSpentError: says what is left.
        """
        left_s = self.wall_left_s()
        if self.is_capped and (left_s <= 0 or left_s < (num_steps - 1) * step_s):
            self.is_spent = True
            raise BudgetSpentError(
                f"this stage has {max(0.0, left_s):.1f} s of the budget left, {num_steps} steps of {step_s:.2f} s due"
            )

    def serves(self, spec: LaunchSpec) -> bool:
        """Return whether ``spec`` needs no start-up now."""
        return any(self._can_repeat(run, spec) or self._can_share(run, spec) for run in self._live)

    def keep_only(self, spec: LaunchSpec) -> None:
        """End every waiting run but one that serves ``spec``."""
        kept = next((r for r in self._live if self._can_repeat(r, spec)), None)
        kept = kept or next((r for r in self._live if self._can_share(r, spec)), None)
        for run in [r for r in self._live if r is not kept and not r.num_holders]:
            self._end(run)

    def stop(self) -> None:
        """End every run."""
        for run in list(self._live):
            self._end(run)

    def release(self, run: LiveRun) -> None:
        """Take a run back: it waits, or ends where it could not be used again."""
        run.num_holders -= 1
        if run.num_holders == 0 and (run.is_broken or run.is_fresh or not isinstance(run.session, Rewinds)):
            self._end(run)

    def _end(self, run: LiveRun) -> None:
        if run in self._live:
            self._live.remove(run)
        run.session.close()

    def _waiting(self, spec: LaunchSpec) -> LiveRun | None:
        run = next((r for r in self._live if not r.num_holders and self._can_repeat(r, spec)), None)
        if run is not None and isinstance(run.session, Rewinds):
            run.session.rewind()
        return run

    def _shared(self, spec: LaunchSpec) -> LiveRun | None:
        return next((r for r in self._live if self._can_share(r, spec)), None)

    def _can_repeat(self, run: LiveRun, spec: LaunchSpec) -> bool:
        is_free = not run.is_broken and not run.is_fresh
        return is_free and isinstance(run.session, Rewinds) and run.spec == spec

    def _can_share(self, run: LiveRun, spec: LaunchSpec) -> bool:
        """Whether hot knobs alone make ``spec`` of a live run's."""
        if run.is_broken or run.is_fresh or not isinstance(run.session, TakesSettings):
            return False
        moved = {knob for knob, value in spec.settings.items() if run.spec.settings.get(knob) != value}
        return bool(moved) and moved <= self.hot and run.spec.model_copy(update={"settings": spec.settings}) == spec


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Lease:
    """Implements `core.framework.Session` over a run that may be another arm's as well."""

    runs: Runs
    run: LiveRun
    spec: LaunchSpec
    has_waited: bool = False
    """Whether it ran these settings before."""

    def warm_up(self, num_steps: int, ages: Ages) -> list[Observation]:
        """Run the steps that no block counts and return them; a run that waited is warm and skips them.

        One that samples ahead of its trainer is never skipped over its start: its queue begins anew.
        """
        last = self.run.last
        if not self.has_waited or last is None or ages.runs_ahead([last]):
            return self.run_steps(num_steps)
        self.skip_to(num_steps)
        return []

    def skip_to(self, step: int) -> None:
        """Go to the reference lengths of ``step`` without running there, as a run that has waited can."""
        assert isinstance(self.run.session, Rewinds), "only such a run waits"
        with _breaking(self.run):
            self._turn()
            self.run.session.skip_to(step)

    def run_steps(self, num_steps: int, *, rehearse_s: float = 0.0) -> list[Observation]:
        """Run steps under the lease's own settings; see `core.framework.Session`."""
        self.runs.check_budget(num_steps + (rehearse_s > 0), self.run.longest_s)
        before_s = self.runs.clock()
        with _breaking(self.run):
            self._turn()
            made = self.run.session.run_steps(num_steps, rehearse_s=rehearse_s)
        self._note(made, self.runs.clock() - before_s)
        return made

    def evaluate(self) -> EvalResult:
        """Held-out accuracy; see `core.framework.Session`."""
        with _breaking(self.run):
            return self.run.session.evaluate()

    def lengths(self) -> SampledLengths:
        """Lengths so far; see `core.framework.Session`."""
        return self.run.session.lengths()

    def close(self) -> None:
        """Give the run back."""
        self.runs.release(self.run)

    def _turn(self) -> None:
        if self.run.settings != self.spec.settings:
            assert isinstance(self.run.session, TakesSettings), "only such a run is shared"
            self.run.session.take_settings(self.spec.settings)
            self.run.settings = self.spec.settings

    def _note(self, made: Sequence[Observation], passed_s: float) -> None:
        """Learn the start-up: what launch and first order took beyond the steps themselves."""
        self.run.longest_s = max(self.run.longest_s, *(step.step_time_s for step in made))
        if self.run.last is None:
            steps_s = sum(step.step_time_s for step in made)
            self.runs.start_ups_s.append(self.run.launch_s + max(0.0, passed_s - steps_s))
        self.run.last = made[-1]


@contextmanager
def _breaking(run: LiveRun) -> Generator[None]:
    """Mark the run as broken when anything is raised inside."""
    try:
        yield
    except BaseException:
        run.is_broken = True
        raise


def hot_knobs(specs: Sequence[KnobSpec]) -> frozenset[str]:
    """Return the knobs that can be turned between two steps."""
    return frozenset(spec.name for spec in specs if spec.restart is Restart.HOT)
