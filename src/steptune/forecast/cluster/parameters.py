"""What the step model knows of one job: every parameter measured, or a shrunk prior with its source."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from steptune.core.estimate import Source
from steptune.forecast.cluster.rollout_knobs import RolloutCosts
from steptune.forecast.cluster.sync import SwitchCosts, SyncCosts
from steptune.forecast.cluster.train_side import TrainCosts

NO_SYNC = SyncCosts()
"""Weights that need no time."""

NO_SWITCH = SwitchCosts()
"""Sides that take turns for free."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Parameter:
    """One number of the model: ``Parameter(name="train per token", value=4.1e-4, unit="s", source=MEASURED, ...)``."""

    name: str
    value: float
    unit: str
    source: Source
    """MEASURED on this job's profile, or PUBLISHED: a prior."""
    where: str
    """The spans it was fitted on, or the publication."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainReference:
    """Where only a total was measured: on how many devices, and whether they were shared with the rollout."""

    num_devices: int
    is_colocated: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class StepParameters:
    """All of them."""

    rollout: RolloutCosts
    train: TrainCosts
    sync: SyncCosts = NO_SYNC
    switch: SwitchCosts = NO_SWITCH
    acceptance: float = 1.0
    """Part of groups that dynamic sampling keeps."""
    max_rounds: int = 1
    """Rounds after which a synchronous job goes on with what it has."""
    train_reference: TrainReference | None = None
    """Set where training's terms were not measured one by one: the efficiency prior then scales the total."""
    device_trials: tuple[tuple[float, float], ...] = ()
    """Trials of other training devices: (log of old / new devices, log of new / old time). They shrink the prior."""
    rollout_log_sd: float = 0.03
    """Standard deviation of the log of the rollout's prices. The default is a prior."""
    train_log_sd: float = 0.03
    update_log_sd: float = 0.0
    """Of the optimizer alone, beside that of its side: updates differ, and a profile has few."""
    sync_log_sd: float = 0.1
    listed: tuple[Parameter, ...] = ()
    """Every parameter, for people; what is not here kept the neutral default (no effect)."""

    @property
    def num_free(self) -> int:
        """Constants fitted on this job; priors are not counted."""
        return sum(p.source is Source.MEASURED for p in self.listed)

    def scaled(self, *, rollout: float = 1.0, train: float = 1.0, sync: float = 1.0) -> "StepParameters":
        """Return the same with one side's seconds multiplied: what intervals are made of."""
        own = self.train
        return replace(
            self,
            rollout=replace(self.rollout, scale=self.rollout.scale * rollout),
            train=replace(
                own,
                scale=own.scale * train,
                per_update_s=own.per_update_s * train,
                reduce_fixed_s=own.reduce_fixed_s * train,
                reduce_bytes=own.reduce_bytes * train,
                carried_s=own.carried_s * train,
            ),
            sync=replace(
                self.sync,
                num_bytes=self.sync.num_bytes * sync,
                per_tensor_s=self.sync.per_tensor_s * sync,
                pause_s=self.sync.pause_s * sync,
            ),
        )


def parameter_table(parameters: Sequence[Parameter]) -> str:
    """Return the list as people read it: name, value, source, where from."""
    lines = [f"{p.name:32} {p.value:>10.4g} {p.unit:8} {p.source:10} {p.where}" for p in parameters]
    num_free = sum(p.source is Source.MEASURED for p in parameters)
    return "\n".join([*lines, f"{num_free} free parameters, {len(parameters) - num_free} priors"])
