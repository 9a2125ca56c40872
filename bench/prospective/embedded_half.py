"""The embedded engine's half: profiled, forecast and measured with the tuner's own parts.

A profile is what a session's is: curves of primitives (only under settings that the job's own candidates can reach, for
the owner has pinned the rest), and the baseline launched twice, taking turns. Surprise: an asynchronous arm is not
rehearsed but runs on for a while uncounted, since a pause fills its queue for nothing and the stock must be used up.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import final

from prospective.backend import PairTimes, Settled, Told
from prospective.embedded_space import KNOBS, PERIOD_STEPS, forced_lengths, job_spec
from prospective.job import Job, Moves
from prospective.slowed_serve import VARIABLE
from steptune import __version__
from steptune.adapters.embedded.framework import EmbeddedFramework
from steptune.core.errors import TrialError
from steptune.core.event import LearntFrom
from steptune.core.forecast import Forecast
from steptune.core.framework import LaunchSpec, Session
from steptune.core.job import JobSpec, KnobsSpec
from steptune.core.knob import Settings
from steptune.core.lag import LagDistribution
from steptune.core.phase import Role, SpanKind, is_child
from steptune.core.profile import Profile, SampledLengths
from steptune.core.trial import Observation
from steptune.core.work import PlannedWork
from steptune.forecast.forecast import forecast_change
from steptune.forecast.lag.forecast import with_lag
from steptune.forecast.learn_trial import ArmPhases, learnt_from
from steptune.profile.aggregate import ProfileInputs, health_of, profile_of
from steptune.stats.noise import noise_floor
from steptune.stats.ratio import block_means
from steptune.trial.blocks import REHEARSAL_S

TRAINER_BUDGET_S = 27.0
"""Wall seconds of the probe's trainer curves, as a session has them. With 10 nearly every point rested on one sample,
and a second in which the machine was busy doubled six of them at once (second campaign, docs/LAB.md 2026-12-01)."""

WARMUP_STEPS = 2
"""Steps after a launch that belong to no block."""

QUEUE_STEPS = 3
"""Uncounted steps of an asynchronous block for each step that the rollout may be ahead: the stock is used up."""

QUEUE_PERIODS = 2
"""Periods of an asynchronous block that count: groups come in bursts."""

NUM_PAIRS, NUM_PAIRS_QUEUE = 3, 2
"""Pairs of blocks of a trial; fewer where an arm has a queue, whose blocks are long."""

SERVE = "prospective.slowed_serve"
Block = tuple[Observation, ...]
Both = tuple[Block, Block]
"""A block of the incumbent and one of the candidate."""


@final
@dataclass(kw_only=True, slots=True)
class EmbeddedHalf:
    """Implements `prospective.backend.Backend`. Runs go under ``folder``."""

    folder: Path
    profile_type: type[Profile] = Profile
    _framework: EmbeddedFramework = field(init=False)
    _num_runs: int = 0

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        paths = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "src")]
        os.environ["PYTHONPATH"] = os.pathsep.join([*paths, os.environ.get("PYTHONPATH", "")])
        cache = self.folder.absolute() / "starts"
        self._framework = EmbeddedFramework(cache_dir=cache, trainer_budget_s=TRAINER_BUDGET_S, module=SERVE)

    def profile(self, job: Job) -> Profile:
        """Probe the primitives, then run the baseline against itself."""
        spec = reachable(job)
        costs = self._framework.probe_costs(spec, self._path(job, "probe"))
        arms, lengths = self._take_turns(job, {}, num_pairs=2)
        kept = tuple(step for pair in arms for block in pair for step in block)
        noise = noise_floor(*([o.step_time_s for pair in arms for o in pair[arm]] for arm in (0, 1)))
        inputs = ProfileInputs(
            framework=self._framework.name,
            version=__version__,
            settings=dict(job.baseline),
            kept=kept,
            num_warmup=WARMUP_STEPS,
            lengths=lengths,
            health=health_of(kept),
            noise=noise,
            costs=costs,
            load_avg=os.getloadavg()[0],
        )
        return profile_of(spec, inputs)

    def forecast(self, told: Job, profile: Profile, settled: Sequence[Settled], moves: Moves) -> Told:
        """Forecast as a session does, from the same records."""
        spec = job_spec(told)
        baseline = self._planned(spec, told.baseline, profile)
        history = tuple(
            learnt_from(
                profile=profile,
                planned_baseline=baseline,
                planned=self._planned(spec, told.settings(done.moves), profile),
                change=told.change(done.moves),
                objective=spec.objective,
                measured_ratio=done.pair.ratio,
                candidate=_arm(done.pair.candidate_s, done.pair.candidate_phases_s),
                baseline=_arm(done.pair.incumbent_s, done.pair.incumbent_phases_s),
            )
            for done in settled
        )
        made = self._made(spec, told, profile, moves, history)
        low, high = made.ratio.low, made.ratio.high
        if made.refused is not None or low is None or high is None:
            raise TrialError(made.refused or "the forecast has no interval")
        step_s = profile.step_time.value
        return Told(
            ratio=made.ratio.value,
            low=low,
            high=high,
            num_free_parameters=made.num_free_parameters,
            phases_frac={f"{p.role}:{p.phase}": p.seconds / step_s for p in made.phases if not is_child(p.phase)},
        )

    def ages(self, told: Job, profile: Profile, moves: Moves) -> LagDistribution:
        """Forecast the ages of trained tokens from the profile alone, as a session does before its first trial."""
        spec = job_spec(told)
        made = with_lag(
            self._made(spec, told, profile, moves, ()),
            profile=profile,
            planned_baseline=self._planned(spec, told.baseline, profile),
            planned=self._planned(spec, told.settings(moves), profile),
            history=(),
        )
        if made.ages is None:
            raise TrialError(made.refused or "the ages were not forecast")
        return made.ages

    def _made(
        self, spec: JobSpec, told: Job, profile: Profile, moves: Moves, history: tuple[LearntFrom, ...]
    ) -> Forecast:
        return forecast_change(
            profile=profile,
            planned_baseline=self._planned(spec, told.baseline, profile),
            planned=self._planned(spec, told.settings(moves), profile),
            change=told.change(moves),
            history=history,
            total_memory_bytes=self._framework.total_memory_bytes(),
            headroom_frac=spec.limits.memory_headroom_frac,
            objective=spec.objective,
        )

    def pair(self, job: Job, moves: Moves) -> PairTimes:
        """Launch both arms and let them take turns."""
        has_queue = any(settings["schedule"] == "async" for settings in (job.baseline, job.settings(moves)))
        arms, _ = self._take_turns(job, moves, num_pairs=NUM_PAIRS_QUEUE if has_queue else NUM_PAIRS)
        incumbent, candidate = ([pair[arm] for pair in arms] for arm in (0, 1))
        return PairTimes(
            incumbent_s=_times(incumbent),
            candidate_s=_times(candidate),
            incumbent_phases_s=_phases(incumbent),
            candidate_phases_s=_phases(candidate),
            note=_note(candidate),
        )

    def run(self, job: Job, moves: Moves, *, num_steps: int) -> tuple[Observation, ...]:
        """Launch an asynchronous candidate alone and return its last ``num_steps`` steps, when its stock is used up."""
        settings = job.settings(moves)
        lag = settings["max_lag"]
        assert isinstance(lag, int), "a stream has a bound"
        session = self._launch(job, settings, "candidate")
        try:
            return tuple(session.run_steps(WARMUP_STEPS + QUEUE_STEPS * (1 + lag) + num_steps)[-num_steps:])
        finally:
            session.close()

    def same(self, job: Job) -> PairTimes:
        """Launch the incumbent twice."""
        return self.pair(job, {})

    def _take_turns(self, job: Job, moves: Moves, *, num_pairs: int) -> tuple[list[Both], SampledLengths]:
        """Return pairs of blocks (incumbent, candidate), AB BA AB, and the lengths of the incumbent's first steps."""
        sessions: list[Session] = []
        settings = (job.baseline, job.settings(moves))
        try:
            for name, chosen in zip(("incumbent", "candidate"), settings, strict=True):
                sessions.append(self._launch(job, chosen, name))
            for session in sessions:
                session.run_steps(WARMUP_STEPS)
            pairs: list[Both] = []
            for number in range(num_pairs):
                blocks: dict[int, Block] = {}
                for arm in (0, 1) if number % 2 == 0 else (1, 0):
                    blocks[arm] = _block(sessions[arm], settings[arm])
                pairs.append((blocks[0], blocks[1]))
            return pairs, first_steps(sessions[0].lengths())
        finally:
            for session in sessions:
                session.close()

    def _launch(self, job: Job, settings: Settings, name: str) -> Session:
        os.environ[VARIABLE] = "" if job.disturbance is None else job.disturbance.model_dump_json()
        spec = LaunchSpec(settings=dict(settings), seed=job.seed % 1000, forced_lengths=forced_lengths(job))
        try:
            return self._framework.launch(job_spec(job), spec, self._path(job, name))
        finally:
            del os.environ[VARIABLE]

    def _planned(self, spec: JobSpec, settings: Settings, profile: Profile) -> PlannedWork:
        return self._framework.planned_work(spec, settings, profile.lengths)

    def _path(self, job: Job, name: str) -> Path:
        self._num_runs += 1
        return self.folder.absolute() / f"{job.name}-{os.getpid()}-{self._num_runs}-{name}"


def reachable(job: Job) -> JobSpec:
    """Return the job with every knob pinned that none of its candidates moves: nobody asks what it would cost."""
    moved = {knob for moves in job.candidates for knob in moves}
    if any(job.settings(moves)["rollout_cores"] is not None for moves in ({}, *job.candidates)):
        moved |= {"rollout_threads", "train_threads"}  # what a quota takes from two threads is told by one
    pin = {knob: value for knob, value in job.baseline.items() if knob not in moved}
    return job_spec(job).model_copy(update={"knobs": KnobsSpec(allow=tuple(KNOBS), pin=pin)})


def first_steps(lengths: SampledLengths) -> SampledLengths:
    """Return the lengths of one period, which every block repeats."""
    end = PERIOD_STEPS * lengths.rollouts_per_step
    return lengths.model_copy(update={"prompt": lengths.prompt[:end], "completion": lengths.completion[:end]})


def _block(session: Session, settings: Settings) -> Block:
    if settings["schedule"] != "async":
        return tuple(session.run_steps(PERIOD_STEPS, rehearse_s=REHEARSAL_S))
    lag = settings["max_lag"]
    assert isinstance(lag, int), "a stream has a bound"
    uncounted = QUEUE_STEPS * (1 + lag)
    return tuple(session.run_steps(uncounted + QUEUE_PERIODS * PERIOD_STEPS)[uncounted:])


def _times(blocks: Sequence[Block]) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(step.step_time_s for step in block) for block in blocks)


def _phases(blocks: Sequence[Block]) -> dict[str, float]:
    steps = [step for block in blocks for step in block]
    seconds: dict[str, float] = {}
    for span in (span for step in steps for span in step.spans):
        if span.kind == SpanKind.BUSY and not is_child(span.phase):
            key = f"{span.role}:{span.phase}"
            seconds[key] = seconds.get(key, 0.0) + span.seconds / len(steps)
    return dict(sorted(seconds.items()))


def _arm(blocks: Sequence[Sequence[float]], phases_s: Mapping[str, float]) -> ArmPhases:
    by_phase = ((key.split(":", 1), seconds) for key, seconds in phases_s.items())
    busy_s = {(Role(role), phase): seconds for (role, phase), seconds in by_phase}
    return ArmPhases(step_s=fmean(block_means(blocks)), busy_s=busy_s)


def _note(blocks: Sequence[Block]) -> str:
    ages = [step.queue.lag_mean for block in blocks for step in block if step.queue is not None]
    return f"mean lag {fmean(ages):.2f}" if ages else ""
