"""What every step of a session works with: the job, its framework, the journal, the clock and the voice."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import final

from steptune.core.event import Event, SessionStarted
from steptune.core.framework import Framework, LaunchSpec, Lever, LimitsOrders
from steptune.core.job import JobSpec
from steptune.core.knob import Effect, KnobSpec, KnobValue, Settings
from steptune.core.profile import NoiseFloor, Profile, SampledLengths
from steptune.core.trial import Arm, EvalResult
from steptune.core.work import PlannedWork, objective_weight
from steptune.store.journal import Clock, Journal, open_for_append
from steptune.store.replay import SessionState, fold
from steptune.store.run_folder import RunFolder
from steptune.tune.budget import Budget
from steptune.tune.progress import Progress
from steptune.tune.runs import Runs, hot_knobs


@final
@dataclass(kw_only=True, slots=True)
class Context:
    """One session. Everything it knows of the past comes from the journal, so a resumed one knows the same."""

    framework: Framework
    job: JobSpec
    folder: RunFolder
    journal: Journal[Event]
    budget: Budget
    progress: Progress
    specs: tuple[KnobSpec, ...]
    runs: Runs
    """Launches of trials and of the A/A repeat; whoever makes the context stops them."""
    shuffled_band: tuple[float, ...] | None = None
    """Distances of the baseline's shuffled update replays, once they are made."""
    probe_band: tuple[float | None, ...] = ()
    """Differences of their probes' log-probs, in nats."""
    replay_s: float | None = None
    """Seconds of one replay of them, once they are made."""
    start: EvalResult | None = None
    """Held-out accuracy of the weights that every run starts from, once it is measured."""
    start_lock: Lock = field(default_factory=Lock)
    _folded: tuple[int, SessionState] = field(default_factory=lambda: (0, SessionState()))

    def record(self, event: Event) -> None:
        """Append ``event`` to the journal and bring the views up to date."""
        self.journal.append(event)
        self.folder.write_views(self.journal.events)

    @property
    def state(self) -> SessionState:
        """What the journal says so far."""
        events = self.journal.events
        if self._folded[0] != len(events):
            self._folded = (len(events), fold(events))
        return self._folded[1]

    @property
    def started(self) -> SessionStarted:
        """The session's first event."""
        started = self.state.started
        assert started is not None, "a session is recorded before it works"
        return started

    @property
    def baseline(self) -> Profile:
        """The baseline's profile."""
        profile = self.state.baseline
        assert profile is not None, "the baseline is profiled before anything uses it"
        return profile

    @property
    def noise(self) -> NoiseFloor:
        """The baseline's noise floor."""
        noise = self.baseline.noise
        assert noise is not None, "a measured profile has a noise floor"
        return noise

    @property
    def baseline_settings(self) -> dict[str, KnobValue]:
        """The baseline's whole configuration."""
        return settings_of(self.started.baseline_levers)

    @property
    def lengths(self) -> SampledLengths:
        """The baseline's natural lengths, to which every timed arm is forced."""
        lengths = self.baseline.lengths
        assert isinstance(lengths, SampledLengths), "a measured profile has sampled lengths"
        return lengths

    @property
    def forced_lengths(self) -> SampledLengths | None:
        """Lengths to force, or None for a job with dynamic sampling, whose rounds depend on real rewards.

        Such arms share seeds and noise, so their lengths agree up to rounding; the same-work guard checks.
        """
        return None if self.job.algorithm.dynamic_sampling else self.lengths

    @property
    def baseline_arms(self) -> tuple[Arm, ...]:
        """Both arms of the A/A repeat."""
        assert self.state.baseline is not None, "the baseline is profiled before anything uses it"
        return self.state.baseline_arms

    @property
    def batches_dir(self) -> Path:
        """Rollout batches recorded from the baseline, for the update-parity replay."""
        found = sorted(
            self.folder.path.glob("profile/natural*/batches"), key=lambda p: (len(p.parent.name), p.parent.name)
        )
        return found[-1] if found else self.folder.path / "profile" / "natural" / "batches"

    @property
    def effects(self) -> dict[str, Effect]:
        """Effect class of every knob."""
        return {spec.name: spec.effect for spec in self.specs}

    def planned(self, settings: Settings) -> PlannedWork:
        """Count the work of a step under ``settings`` at the reference lengths."""
        return self.framework.planned_work(self.job, settings, self.lengths)

    def orders_within(self, seconds: float) -> AbstractContextManager[None]:
        """Let offline orders inside the context take ``seconds`` together, where the framework can stop them."""
        framework = self.framework
        return framework.orders_within(seconds) if isinstance(framework, LimitsOrders) else nullcontext()

    def weight(self, settings: Settings) -> float:
        """Return what a step time under ``settings`` counts against the baseline's in the job's objective."""
        planned, baseline = self.planned(settings), self.planned(self.baseline_settings)
        return objective_weight(self.job.objective, planned, baseline)

    def run_path(self, *names: str) -> Path:
        """A path inside the run folder that does not exist yet (a resumed session never writes over old files)."""
        path = self.folder.path.joinpath(*names)
        attempt = 1
        while path.exists():
            attempt += 1
            path = path.with_name(f"{names[-1]}-r{attempt}")
        return path


def settings_of(levers: tuple[Lever, ...]) -> dict[str, KnobValue]:
    """Return the configuration that a lever table describes."""
    return {lever.knob: lever.value for lever in levers}


def make_context(
    job: JobSpec,
    framework: Framework,
    folder: RunFolder,
    clock: Clock,
    *,
    spent_before_s: float = 0.0,
    clock_s: Callable[[], float] = time.monotonic,
) -> Context:
    """Return what a session works with. ``clock`` dates the journal, ``clock_s`` is what the budget is counted by."""
    num_cores = job.devices.num_cores
    budget = Budget(spec=job.budget, num_cores=num_cores, clock=clock_s, spent_before_s=spent_before_s)
    specs = framework.knobs(job)
    return Context(
        framework=framework,
        job=job,
        folder=folder,
        journal=open_for_append(folder.journal_path, clock),
        budget=budget,
        progress=Progress(budget=budget),
        specs=specs,
        runs=Runs(framework=framework, hot=hot_knobs(specs), clock=clock_s, wall_left_s=budget.stage_left_s),
    )


def trial_spec(context: Context, settings: Settings) -> LaunchSpec:
    """Return how an arm of a trial is launched."""
    return LaunchSpec(settings=dict(settings), seed=context.job.algorithm.seed, forced_lengths=context.forced_lengths)
