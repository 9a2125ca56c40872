"""What can be asked of a log, as the command line says it.

Surprise: `given` and `changed` look alike and are two things. `given` completes what the log says of the run that was
measured; `changed` is the work of the run that is asked about.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

GIVEN = (
    "prompts_per_step",
    "group_size",
    "completion_mean",
    "completion_max",
    "clipped_frac",
    "prompt_mean",
    "replicas",
    "train_devices",
    "rollout_devices",
    "max_lag",
)
"""Facts of the measured run that a log may lack, by the names under which the answer reports them missing."""

CHANGEABLE = ("prompts_per_step", "group_size")
"""What a log with one total per side can price a change of: the number of rollouts. No other knob."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """``Question(devices=40, max_lag=2)``: the best split of 40 devices, asynchronous, at most two updates old."""

    devices: int | None = None
    """Devices of the asked configuration; None keeps the measured number. The upper end of a sweep."""
    max_lag: int | None = None
    """Updates that samples may be behind; None keeps the way the sides meet."""
    split: tuple[int, int] | None = None
    """Devices for training and for the rollout; None with `max_lag` asks for the best."""
    wants_fewest: bool = False
    """The fewest devices that keep the measured step time."""
    wants_sweep: bool = False
    """A ranked table of device counts, ways to meet and splits."""
    measured_devices: int | None = None
    """Devices of the measured run, where the log does not say."""
    given: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    """Facts of the measured run, by `GIVEN`."""
    changed: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    """Work of the asked configuration, by `CHANGEABLE`."""
