"""The embedded engine as the stages see it. Knows the engine's types but never loads torch: runs are processes."""

import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, final

from pydantic import TypeAdapter

from steptune import __version__
from steptune.adapters.embedded.baselines import best_practice_levers, default_levers, expert_levers
from steptune.adapters.embedded.conflicts import conflicts
from steptune.adapters.embedded.helper import Helper
from steptune.adapters.embedded.idle import is_crowded, may_sleep
from steptune.adapters.embedded.knobs import knob_specs
from steptune.adapters.embedded.orphans import run_mark, stop_marked
from steptune.adapters.embedded.render import render_job
from steptune.adapters.embedded.session import SERVE, START_TIMEOUT_S, EngineSession, session_environment, stall_s_of
from steptune.adapters.embedded.shape import shape_of_model
from steptune.adapters.embedded.work import WorkCounter
from steptune.core.errors import JobError, StepTuneError, TrialError, explain, named_error
from steptune.core.framework import LaunchSpec, Lever, ParityInput, ParityOutput, SideReplay, SideTimes
from steptune.core.job import JobSpec
from steptune.core.knob import KnobSpec, KnobValue, Settings
from steptune.core.model import ModelSpec
from steptune.core.phase import Role
from steptune.core.pretrained import HfModel
from steptune.core.profile import CostCurve, Lengths, SampledLengths
from steptune.core.work import PlannedWork
from steptune.engine.foreign.settings import START_TIMEOUT_S as VLLM_START_TIMEOUT_S
from steptune.engine.knobs import EngineKnobs
from steptune.engine.offline import USER_ERROR
from steptune.engine.orders import FindOrder, OfflineOrder, ProbeOrder, ReplayOrder, SideOrder, StartOrder
from steptune.engine.serve import RunFile
from steptune.envs.math.problems import train_problem
from steptune.envs.vocabulary import vocabulary_of
from steptune.shapes.count import parameters

PROMPTS_LOOKED_AT = 2000
"""Training problems whose longest prompt fixes the padded micro-batch of the baselines."""

OFFLINE_TIMEOUT_S = 1800.0
"""Seconds for SFT, a probe or a replay, after which it is taken to hang: SFT of the example takes 30 to 60 here; the
probe of a model of 135 M parameters took more than 600 on two cores that seven others shared (2026-11-30)."""

COMPILE_TIMEOUT_S = 300.0
"""Seconds that a start with `compile` may take longer, both ranks one after the other."""

MODELS = "models"
"""Folder of converted models in the cache."""

COSTS: TypeAdapter[tuple[CostCurve, ...]] = TypeAdapter(tuple[CostCurve, ...])
MODEL: TypeAdapter[ModelSpec] = TypeAdapter(ModelSpec)
OUTPUTS: TypeAdapter[list[ParityOutput]] = TypeAdapter(list[ParityOutput])


def _ignore(_line: str) -> None:
    return None


@final
@dataclass(kw_only=True, slots=True)
class EmbeddedFramework:
    """Implements `core.framework.Framework`."""

    cache_dir: Path
    """Where SFT starts are kept, by content."""
    say: Callable[[str], None] = _ignore
    """Shown lines of long offline work (SFT)."""
    trainer_budget_s: float | None = None
    """Wall seconds of the probe's trainer curves; None is the engine's own choice."""
    module: str = SERVE
    """What a run is: a bench may put something before it that slows it down."""
    name: str = "embedded"
    _counter: WorkCounter | None = None
    _helper: Helper | None = None
    _is_helped: bool = False
    _orders_end_s: float = math.inf
    """On the monotonic clock; see `core.framework.LimitsOrders`."""
    _starts: dict[str, str] = field(default_factory=dict[str, str])

    def version(self) -> str:
        """The engine ships with the package."""
        return __version__

    def knobs(self, job: JobSpec) -> tuple[KnobSpec, ...]:
        """Every knob; see `knobs`."""
        return knob_specs(job)

    def baseline(self, job: JobSpec, kind: Literal["default", "best_practice", "expert"]) -> tuple[Lever, ...]:
        """The lever table of a baseline; see `baselines`."""
        if kind == "expert":
            return expert_levers(job)
        table = default_levers if kind == "default" else best_practice_levers
        return table(job, longest_prompt_len=longest_prompt(job))

    def conflicts(self, job: JobSpec, settings: Settings) -> tuple[str, ...]:
        """Why this configuration may not be tried; see `conflicts`."""
        return conflicts(job, _knobs(settings))

    def planned_work(self, job: JobSpec, settings: Settings, lengths: Lengths) -> PlannedWork:
        """Count a step's work.

        Raises:
            JobError: the lengths are not sampled ones.
        """
        if not isinstance(lengths, SampledLengths):
            raise JobError(
                explain(
                    "the embedded engine plans from sampled lengths",
                    got=f"lengths of kind `{lengths.kind}`",
                    allowed="samples",
                    hint="profile the job with `steptune tune --advise-only`",
                )
            )
        counter = self._counter
        if counter is None or counter.job != job or counter.lengths is not lengths:
            counter = self._counter = WorkCounter(job=job, lengths=lengths)
        return counter.planned(_knobs(settings))

    def probe_costs(self, job: JobSpec, out_dir: Path) -> tuple[CostCurve, ...]:
        """Measure primitives in a process of their own, and in another what threads take that sleep when idle."""
        out = out_dir / "costs.json"
        order = ProbeOrder(job=job, out_path=str(out), trainer_budget_s=self.trainer_budget_s)
        self._help(order, out_dir)
        costs = COSTS.validate_json(out.read_bytes())
        if not may_sleep(job, os.environ):
            return costs
        self._offline(order.model_copy(update={"is_asleep": True}), out_dir, is_crowded=True)
        return (*costs, *COSTS.validate_json(out.read_bytes()))

    def launch(self, job: JobSpec, spec: LaunchSpec, out_dir: Path) -> EngineSession:
        """Start a run; see `session`."""
        knobs = _knobs(spec.settings)
        if spec.is_untimed:
            knobs = knobs.model_copy(update={"rollout_threads": 1, "train_threads": 1, "rollout_cores": None})
        run = RunFile(
            job=job,
            knobs=knobs,
            seed=spec.seed,
            forced_lengths=spec.forced_lengths,
            capture_batches=spec.capture_batches,
            start_path=self.start(job),
            parent_pid=os.getpid(),
            checkpoint_every=spec.checkpoint_every,
            resume=spec.resume,
        )
        start_s = START_TIMEOUT_S + (0.0 if knobs.rollout_engine == "embedded" else VLLM_START_TIMEOUT_S)
        start_s += COMPILE_TIMEOUT_S if knobs.compile else 0.0
        stall_s = stall_s_of(parameters(shape_of_model(job.model)).total)
        environment = self._environment(out_dir, is_crowded=is_crowded(knobs, os.cpu_count() or 1))
        return EngineSession(run.model_dump_json(), out_dir, environment, start_s, stall_s, self.module)

    def replay_updates(self, job: JobSpec, parity: Sequence[ParityInput], out_dir: Path) -> list[ParityOutput]:
        """Replay recorded batches through every input's trainer, all in float32."""
        order = ReplayOrder(
            job=job,
            inputs=tuple(parity),
            start_path=self.start(job),
            folder=str(out_dir),
            out_path=str(out_dir / "outputs.json"),
        )
        self._help(order, out_dir)
        return OUTPUTS.validate_json((out_dir / "outputs.json").read_bytes())

    def replayable_sides(self, job: JobSpec, settings: Settings) -> frozenset[Role]:
        """Return the sides that run in one process here as in a run; see `core.framework.ReplaysSides`."""
        return replayable_sides(job, _knobs(settings))

    def is_ready_to_replay(self) -> bool:
        """Whether the helper is up; see `core.framework.ReplaysSides`."""
        return self._helper is not None and self._helper.is_up

    @contextmanager
    def helper(self) -> Generator[None]:
        """Let probe and replays of one run folder share a process; see `core.framework.LendsHelper`."""
        self._is_helped = True
        try:
            yield
        finally:
            self._is_helped = False
            self._end_helper()

    @contextmanager
    def orders_within(self, seconds: float) -> Generator[None]:
        """Stop orders whose time is up; see `core.framework.LimitsOrders`."""
        before_s, self._orders_end_s = self._orders_end_s, time.monotonic() + seconds
        try:
            yield
        finally:
            self._orders_end_s = before_s

    def replay_side(self, job: JobSpec, wanted: SideReplay, out_dir: Path) -> SideTimes:
        """Time both arms in one process; see `core.framework.ReplaysSides`."""
        out = out_dir / "times.json"
        order = SideOrder(job=job, wanted=wanted, start_path=self.start(job), folder=str(out_dir), out_path=str(out))
        self._help(order, out_dir)
        return SideTimes.model_validate_json(out.read_bytes())

    def render(self, job: JobSpec, settings: Settings) -> str:
        """The job's own TOML with the settings pinned."""
        return render_job(job, settings)

    def clean_up(self, run_folder: Path) -> None:
        """Stop marked leftovers of a killed session."""
        for pid in stop_marked(run_mark(run_folder)):
            self.say(f"stopped process {pid}, left by a killed session on this run folder")

    def total_memory_bytes(self) -> int:
        """Physical memory."""
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")

    def prepare(self, job: JobSpec) -> None:
        """Train the SFT start, if this machine has not got it; see `core.framework.Prepares`."""
        self.start(job)

    def find_model(self, wanted: HfModel) -> ModelSpec:
        """Look at the folder or package that a job names, in a process of its own.

        Raises:
            ModelError: it cannot be used; see `engine.hf.find`.
        """
        self.say("model: reading the folder, or converting the package's weights once (about half a minute)")
        self.cache_dir.mkdir(parents=True, exist_ok=True)
        out = self.cache_dir / f"model-{os.getpid()}.json"
        order = FindOrder(model=wanted, cache_dir=str(self.cache_dir / MODELS), out_path=str(out))
        self._offline(order, self.cache_dir)
        found = MODEL.validate_json(out.read_bytes())
        out.unlink()
        return found

    def start(self, job: JobSpec) -> str:
        """Return the file with the SFT start, training it first if this machine has not got it."""
        key = job.model_dump_json()
        if key not in self._starts:
            self.say("SFT start: taken from the cache, or trained once (about half a minute)")
            out = self.cache_dir / f"start-{os.getpid()}.txt"
            self.cache_dir.mkdir(parents=True, exist_ok=True)
            self._offline(StartOrder(job=job, cache_dir=str(self.cache_dir), out_path=str(out)), self.cache_dir)
            self._starts[key] = out.read_text(encoding="utf-8")
            out.unlink()
        return self._starts[key]

    def _help(self, order: OfflineOrder, folder: Path) -> None:
        """Carry out an order in the helper, if there may be one, else in a process of its own."""
        mark = run_mark(folder)
        if not self._is_helped:
            self._offline(order, folder)
            return
        if self._helper is None or self._helper.mark != mark:
            self._end_helper()
            self._helper = Helper(mark, Path(mark) / "helper.txt", self.cache_dir)
        folder.mkdir(parents=True, exist_ok=True)
        exit_code, said = _carried_out(self._helper, order, self._patience_s())
        if exit_code == -signal.SIGKILL:
            self.say(f"`{order.order}`: the process that helps was killed from outside; once more")
            exit_code, said = _carried_out(self._helper, order, self._patience_s())
        if exit_code:
            raise _failure(order.order, exit_code, said)

    def _patience_s(self) -> float:
        """Return the seconds after which an order is stopped."""
        return max(0.0, min(OFFLINE_TIMEOUT_S, self._orders_end_s - time.monotonic()))

    def _end_helper(self) -> None:
        if self._helper is not None:
            self._helper.close()
        self._helper = None

    def _environment(self, folder: Path, *, is_crowded: bool = False) -> dict[str, str]:
        return session_environment(os.environ, run_mark(folder), self.cache_dir, is_crowded=is_crowded)

    def _offline(self, order: OfflineOrder, folder: Path, *, is_crowded: bool = False) -> None:
        patience_s = self._patience_s()
        folder.mkdir(parents=True, exist_ok=True)
        try:
            result = subprocess.run(
                [sys.executable, "-m", "steptune.engine.offline", order.model_dump_json(), str(os.getpid())],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=patience_s,
                env=self._environment(folder, is_crowded=is_crowded),
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise _hangs(order, patience_s) from None
        if result.returncode != 0:
            raise _failure(order.order, result.returncode, result.stdout)


def _carried_out(helper: Helper, order: OfflineOrder, patience_s: float) -> tuple[int, str]:
    try:
        return helper.carry_out(order, patience_s)
    except subprocess.TimeoutExpired:
        raise _hangs(order, patience_s) from None


def _hangs(order: OfflineOrder, patience_s: float) -> TrialError:
    hint = "run it on a machine that does nothing else, or make the model or `[sft]` smaller"
    allowed = f"{patience_s:.0f} s"
    return TrialError(
        explain(f"`{order.order}` was stopped, it takes too long", got="no end", allowed=allowed, hint=hint)
    )


def _failure(order: str, exit_code: int, output: str) -> StepTuneError:
    """Return the error that the process of an order died of: its own, where that is one of ours."""
    last = (output.strip().splitlines() or ["no output"])[-1]
    kind, colon, sentence = last.partition(": ")
    if exit_code == USER_ERROR and colon:
        return named_error(kind)(sentence)
    return TrialError(f"{order} failed with exit code {exit_code}: {last}")


def replayable_sides(job: JobSpec, knobs: EngineKnobs) -> frozenset[Role]:
    """Return the sides whose seconds on a recorded batch are those of a run.

    A recorded batch holds what was trained on: rounds that dynamic sampling threw away are not in it, nor are experts
    that another rollout would have recorded. A quota is given to processes, ranks and replicas share a memory bus with
    others, and a foreign engine is not this one. A replay is alone: its threads spin, those of a crowded run sleep.
    """
    is_alone = knobs.train_ranks == 1 and knobs.rollout_replicas == 1
    is_plain = is_alone and knobs.rollout_cores is None and not knobs.router_replay
    if not is_plain:
        return frozenset()
    has_all_rollouts = not job.algorithm.dynamic_sampling and knobs.rollout_engine == "embedded"
    sleeps = is_crowded(knobs, job.devices.num_cores)
    is_like_a_run = {
        Role.TRAINER: not (sleeps and knobs.train_threads > 1),
        Role.ROLLOUT: has_all_rollouts and not (sleeps and knobs.rollout_threads > 1),
    }
    return frozenset(role for role, is_so in is_like_a_run.items() if is_so)


def longest_prompt(job: JobSpec) -> int:
    """Return the longest prompt, in tokens, of the first problems of the training stream."""
    vocabulary, workload = vocabulary_of(job), job.workload
    problems = (train_problem(workload.seed, i, workload.levels) for i in range(PROMPTS_LOOKED_AT))
    return max(len(vocabulary.encode_prompt(problem.text)) for problem in problems)


def _knobs(settings: Settings) -> EngineKnobs:
    values: dict[str, KnobValue] = dict(settings)
    return EngineKnobs.model_validate(values)
