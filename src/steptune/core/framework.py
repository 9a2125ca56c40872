"""What steptune asks of a training framework. Everything the stages know of one is behind this."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated, Literal, Protocol, runtime_checkable

from pydantic import Field

from steptune.core.job import JobSpec, PositiveInt
from steptune.core.knob import KnobSpec, KnobValue, Settings
from steptune.core.phase import Role
from steptune.core.profile import CostCurve, Lengths, PairSpread, SampledLengths
from steptune.core.records import Record
from steptune.core.trial import EvalResult, Observation
from steptune.core.work import PlannedWork


class Lever(Record):
    """One row of a baseline's lever table.

    Example: ``Lever(knob="recompute", value="full", why="GRPOConfig().gradient_checkpointing is True")``.
    """

    knob: str
    value: KnobValue
    why: str
    """The object, document or measurement that fixes it."""


class LaunchSpec(Record):
    """How one run of the job is to be started."""

    settings: dict[str, KnobValue]
    seed: int
    """Seed of problems and sampling noise."""
    forced_lengths: SampledLengths | None = None
    """When given, every rollout stops at exactly these lengths: equal realised work in all arms."""
    capture_batches: int = 0
    """First N rollout batches saved for update-parity replay."""
    checkpoint_every: PositiveInt | None = None
    """Steps between two checkpoints in the run's folder; None saves none."""
    resume: bool = False
    """Go on from the newest whole checkpoint of the run's folder."""
    is_untimed: bool = False
    """Nobody reads its step times: it may run on one thread beside others (reward runs)."""


class ParityInput(Record):
    """What an update-parity replay needs."""

    settings: dict[str, KnobValue]
    batches_dir: str
    """Folder a capturing run wrote."""
    shuffle_seed: int | None = None
    """Shuffles the order of micro-batches: the baseline's own rounding band."""


class ParityOutput(Record):
    """Result of replaying recorded batches through one trainer from one checkpoint.

    Updates must be as exact as their gradients: an optimizer that makes a sign of a tiny gradient (AdamW with its usual
    epsilon) is damped, alike in all replays of a call.
    """

    params_path: str
    """File with the parameters after the replay, float32, framework's own format."""
    probe_logprobs: tuple[float, ...]
    """Log-probs of the probe tokens after the replay."""
    grad_norms: tuple[float, ...]
    """Gradient norm of every update."""
    param_delta_norm: float
    """L2 norm of the whole parameter change."""
    distance_to_first: float | None = None
    """||parameters - first's|| / ||change of the first||, first being the first replay of the same call."""
    distance_by_tensor: dict[str, float] = {}
    """The same numerator of every tensor by itself, over the whole denominator; empty where nobody told them apart."""


class SideReplay(Record):
    """One side of the step under two configurations, in turn on the same recorded batches.

    Example: ``SideReplay(side=Role.TRAINER, incumbent={...}, candidate={...}, batches_dir=".../batches",
    looks=(3, 5, 8, 12), line=0.95, spread=PairSpread(sd=0.04, num_degrees=11), max_s=300)``.
    """

    side: Role
    """Trainer: every pass over a batch and its updates. Rollout: the batch's prompts, to the lengths it had."""
    incumbent: dict[str, KnobValue]
    candidate: dict[str, KnobValue]
    batches_dir: str
    """Folder a capturing run wrote."""
    looks: Annotated[tuple[PositiveInt, ...], Field(min_length=1)]
    """Pairs, in rising order, after which it may end; the last is the most there will be."""
    line: float
    """Ratio candidate / incumbent that divides what is lost from what is not: enough is known when the pairs' interval,
    widened for all looks (`stats.sequential.is_settled`), lies on one side of it."""
    spread: PairSpread | None
    """What is known beforehand of how far pairs of this side scatter."""
    max_s: float
    """Seconds after which no further pair is begun."""


class SideTimes(Record):
    """Seconds of one side of a step, a pair on one batch: ``SideTimes(incumbent_s=(0.41, 0.40), candidate_s=...)``."""

    incumbent_s: tuple[float, ...]
    candidate_s: tuple[float, ...]


class Session(Protocol):
    """A launched run that waits for orders. Closing it leaves no process behind."""

    def run_steps(self, num_steps: int, *, rehearse_s: float = 0.0) -> list[Observation]:
        """Run ``num_steps`` steps and return them.

        With ``rehearse_s`` above zero the run first repeats its coming step until that many seconds have passed,
        at least once, and takes back what it learnt: caches are warm, while work and weights are where they were.

        Raises:
            TrialError: the run died, hung past its time-out or reported nonsense.
        """
        ...

    def evaluate(self) -> EvalResult:
        """Measure accuracy on the fixed held-out problems at the current weights."""
        ...

    def lengths(self) -> SampledLengths:
        """Return the lengths of every rollout of the kept steps so far, in order."""
        ...

    def close(self) -> None:
        """Stop every process of the run, by id."""
        ...


@runtime_checkable
class SavesModels(Protocol):
    """A session that can write its weights for others to use; not every framework's can."""

    def save_model(self, folder: Path) -> str | None:
        """Write ``folder`` in Hugging Face's format, whole or not at all; return why that cannot be, or None."""
        ...


@runtime_checkable
class Rewinds(Protocol):
    """A session that can wait between trials and then do a fresh run's work again; not every framework's can."""

    def rewind(self) -> None:
        """Go back to the first step's prompts and reference lengths; weights stay what they are."""
        ...

    def skip_to(self, step: int) -> None:
        """Go on at the prompts and reference lengths of ``step``; other configurations of the run keep their count."""
        ...


@runtime_checkable
class TakesSettings(Protocol):
    """A session whose hot knobs can be turned between two steps; not every framework's can."""

    def take_settings(self, settings: Settings) -> None:
        """Go on under ``settings``, which differ from the launched ones by hot knobs only.

        Every configuration counts its own steps, so that two arms in one launch meet the same reference lengths.
        """
        ...


@runtime_checkable
class ReplaysSides(Protocol):
    """A framework that can run one side of a step without the other; not every one can."""

    def replayable_sides(self, job: JobSpec, settings: Settings) -> frozenset[Role]:
        """Return the sides whose time under ``settings`` a replay gives as a run would."""
        ...

    def is_ready_to_replay(self) -> bool:
        """Return whether a replay needs no start-up now."""
        ...

    def replay_side(self, job: JobSpec, wanted: SideReplay, out_dir: Path) -> SideTimes:
        """Time both arms, at most ``wanted.looks[-1]`` pairs after a warm-up; files go under ``out_dir``.

        Raises:
            TrialError: an arm died, or there is no recorded batch.
            MemoryError: both arms together ran out of memory.
        """
        ...


@runtime_checkable
class LendsHelper(Protocol):
    """A framework whose offline work (probe, replays) may share one process; not every one's does."""

    def helper(self) -> AbstractContextManager[None]:
        """Keep that process until the end of the context, where it is ended; it starts with the first work."""
        ...


@runtime_checkable
class LimitsOrders(Protocol):
    """A framework that can stop offline work (probe, replays) where its time is up; not every one can."""

    def orders_within(self, seconds: float) -> AbstractContextManager[None]:
        """Let all orders inside the context end after ``seconds`` together; one that is stopped raises TrialError."""
        ...


@runtime_checkable
class Prepares(Protocol):
    """A framework whose runs begin with something that is made once; not every one has it."""

    def prepare(self, job: JobSpec) -> None:
        """Make what every run of the job begins with, such as the SFT start. Not tuning: no budget counts it."""
        ...


class Launches(Protocol):
    """Whatever starts runs: a framework, or the live runs of a session."""

    def launch(self, job: JobSpec, spec: LaunchSpec, out_dir: Path) -> Session:
        """Start a run that waits for orders; its files go under ``out_dir``."""
        ...


class Framework(Protocol):
    """A training framework as the stages see it."""

    name: str

    def version(self) -> str:
        """Version of the framework."""
        ...

    def knobs(self, job: JobSpec) -> tuple[KnobSpec, ...]:
        """Every knob, with the values that make sense for this job and its devices."""
        ...

    def baseline(self, job: JobSpec, kind: Literal["default", "best_practice", "expert"]) -> tuple[Lever, ...]:
        """The lever table of one baseline, every knob exactly once, pins applied."""
        ...

    def conflicts(self, job: JobSpec, settings: Settings) -> tuple[str, ...]:
        """Why this configuration cannot run or breaks a limit; empty when it may be tried."""
        ...

    def planned_work(self, job: JobSpec, settings: Settings, lengths: Lengths) -> PlannedWork:
        """Count what a step under ``settings`` asks of the machine at these lengths."""
        ...

    def probe_costs(self, job: JobSpec, out_dir: Path) -> tuple[CostCurve, ...]:
        """Measure primitive costs on this machine. Runs no candidate configuration."""
        ...

    def launch(self, job: JobSpec, spec: LaunchSpec, out_dir: Path) -> Session:
        """Start a run that waits for orders; its files go under ``out_dir``."""
        ...

    def replay_updates(self, job: JobSpec, parity: Sequence[ParityInput], out_dir: Path) -> list[ParityOutput]:
        """Replay recorded batches through the trainer of each input, from the same checkpoint.

        Every output carries its distance to the first.
        """
        ...

    def render(self, job: JobSpec, settings: Settings) -> str:
        """The user's own config with these settings, as text."""
        ...

    def clean_up(self, run_folder: Path) -> None:
        """Stop processes that a killed session on ``run_folder`` may have left behind, by id."""
        ...

    def total_memory_bytes(self) -> int:
        """Memory of the machine (or device) the head-room limit refers to."""
        ...
