"""Orders for engine work that is no training run; `offline` carries them out in a process of its own."""

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from steptune.core.framework import ParityInput, SideReplay
from steptune.core.job import JobSpec
from steptune.core.pretrained import HfModel
from steptune.core.records import Record


class FindOrder(Record):
    """Look at the model folder that a job names; writes the model's shape."""

    order: Literal["find"] = "find"
    model: HfModel
    cache_dir: str
    """Where a package's weights are converted to."""
    out_path: str


class StartOrder(Record):
    """Make sure that the SFT start is cached; writes its path."""

    order: Literal["start"] = "start"
    job: JobSpec
    cache_dir: str
    out_path: str


class ProbeOrder(Record):
    """Measure primitive costs; writes a list of cost curves."""

    order: Literal["probe"] = "probe"
    job: JobSpec
    out_path: str
    trainer_budget_s: Annotated[float, Field(gt=0)] | None = None
    """Wall seconds of the trainer's curves beyond what is always measured; None is `engine.probe.PROBE_BUDGET_S`."""
    is_asleep: bool = False
    """The process was started with threads that sleep when idle: only what several threads do is measured."""


class ReplayOrder(Record):
    """Replay recorded batches through trainers; writes a list of parity outputs."""

    order: Literal["replay"] = "replay"
    job: JobSpec
    inputs: tuple[ParityInput, ...]
    start_path: str
    """SFT start that the capturing run began with."""
    folder: str
    out_path: str


class SideOrder(Record):
    """Time one side of the step under two configurations; writes both arms' times."""

    order: Literal["side"] = "side"
    job: JobSpec
    wanted: SideReplay
    start_path: str
    """SFT start that the capturing run began with."""
    folder: str
    out_path: str


OfflineOrder = Annotated[FindOrder | StartOrder | ProbeOrder | ReplayOrder | SideOrder, Field(discriminator="order")]

ORDER: TypeAdapter[OfflineOrder] = TypeAdapter(OfflineOrder)
