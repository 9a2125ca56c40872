"""What the loop and its source of rollouts share: one run's parts and its two counters."""

from dataclasses import dataclass
from pathlib import Path
from typing import final

from steptune.core.job import JobSpec
from steptune.core.profile import SampledLengths
from steptune.engine.ahead.bound import age_bound
from steptune.engine.events import Recorder
from steptune.engine.knobs import EngineKnobs
from steptune.engine.model import Transformer
from steptune.engine.quota.split import split_of
from steptune.engine.replicas.conflicts import check_replicas
from steptune.engine.stream.carry import carry_bound
from steptune.engine.stream.conflicts import check_stream
from steptune.engine.trainer import Trainer


@dataclass(frozen=True, kw_only=True, slots=True)
class LoopSpec:
    """One run of the loop."""

    job: JobSpec
    knobs: EngineKnobs
    seed: int
    forced: SampledLengths | None
    capture_batches: int
    folder: Path
    checkpoint_every: int | None = None
    """Steps between two checkpoints; None saves none."""


@final
@dataclass(kw_only=True, slots=True)
class LoopState:
    """Written by the loop, read by its source."""

    spec: LoopSpec
    model: Transformer
    trainer: Trainer
    recorder: Recorder
    version: int = 0
    """Optimizer updates behind the trainer's weights."""
    step_index: int = 0
    """The step that runs, or the next one between two."""


def check_schedule(spec: LoopSpec) -> None:
    """Refuse a schedule that cannot be, before a file is opened or a process started.

    Raises:
        JobError: see `quota.split.split_of`, `stream.conflicts.check_stream`, `replicas.conflicts.check_replicas`,
            `ahead.bound.age_bound` and `stream.carry.carry_bound`.
    """
    split_of(spec.job.devices.num_cores, spec.knobs)
    check_stream(spec.knobs)
    check_replicas(spec.job, spec.knobs)
    if spec.knobs.schedule == "async":
        age_bound(spec.job, spec.knobs)
    if spec.knobs.partial_rollout is not None:
        carry_bound(spec.job, spec.knobs)
