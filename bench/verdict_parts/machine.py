"""A simulated machine: recorded noise in blocks, drift, and launches that differ; runs on it answer like real ones.

Time passes on one line for all runs of a session, step by step, whoever runs. So two blocks that take turns meet the
same slow spell, and a spell that ends between them does not cancel: what ABBA is for.
"""

import json
import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from steptune.core.framework import LaunchSpec
from steptune.core.job import JobSpec
from steptune.core.profile import SampledLengths
from steptune.core.trial import EvalResult, Observation

TRACE = Path(__file__).resolve().parents[1] / "traces" / "embedded_steps.json"

SEGMENT_STEPS = 20
"""Length of the pieces that the noise is drawn in: longer than a pair of the longest blocks with rehearsals (18
steps), so its memory is kept."""

STEP = Observation(
    step=0,
    step_time_s=1.0,
    wall_by_role_s={},
    spans=(),
    prompt_tokens=1,
    completion_tokens=1,
    padded_tokens=2,
    decode_iterations=1,
    num_rollouts=1,
    completion_len_p50=1,
    completion_len_max=1,
    truncated_frac=0.0,
    reward_mean=0.5,
    mixed_groups_frac=0.5,
    entropy=1.0,
    grad_norm=1.0,
    loss=0.0,
    mismatch=None,
    lag_max=0,
    memory_peak_bytes=None,
    weight_version=1,
)


@dataclass(frozen=True, kw_only=True)
class Noise:
    """``Noise(cv=0.05, launch_sd=0.01, drift=0.1)``: spread of a step, of a launch, and the drift over a session."""

    cv: float
    """Standard deviation of the log step time inside a launch."""
    launch_sd: float
    """Standard deviation of a launch's log step time around its configuration's."""
    drift: float
    """Largest linear change of the machine's speed over `DRIFT_STEPS`, either way; half of it again wanders."""


DRIFT_STEPS = 400
"""Steps over which the drift comes about: about a session's."""


def read_trace(key: str) -> list[list[float]]:
    """Return recorded logarithms by piece, ``quiet``, ``busy`` or ``k3``, with unit spread over all pieces."""
    pieces, spread = _recorded(key), recorded_spread(key)
    return [[value / spread for value in piece] for piece in pieces]


def recorded_spread(key: str) -> float:
    """Return the standard deviation of the recorded logarithms about their piece's mean (k3: about its trend)."""
    return statistics.pstdev([value for piece in _recorded(key) for value in piece])


def block_spread(trace: Sequence[Sequence[float]], num_steps: int) -> float:
    """Return the standard deviation of the mean of ``num_steps`` consecutive values."""
    means = [statistics.fmean(piece[i : i + num_steps]) for piece in trace for i in range(len(piece) - num_steps + 1)]
    return statistics.pstdev(means)


def _recorded(key: str) -> list[list[float]]:
    recorded = json.loads(TRACE.read_text(encoding="utf-8"))
    if key == "quiet":
        return recorded["quiet"]["log_step"]
    launches = [launch["k3" if key == "k3" else "step_s"] for launch in recorded["busy"]["launches"]]
    logs = [[math.log(value) for value in launch] for launch in launches]
    return [detrended(launch) if key == "k3" else _centred(launch) for launch in logs]


def detrended(values: Sequence[float]) -> list[float]:
    """Return values about their straight line: k3 grows with training, and the noise is what is left."""
    middle, mean = (len(values) - 1) / 2, statistics.fmean(values)
    slope = sum((i - middle) * (v - mean) for i, v in enumerate(values)) / sum(
        (i - middle) ** 2 for i in range(len(values))
    )
    return [v - mean - slope * (i - middle) for i, v in enumerate(values)]


def _centred(values: Sequence[float]) -> list[float]:
    mean = statistics.fmean(values)
    return [value - mean for value in values]


@dataclass(kw_only=True)
class Machine:
    """One session's machine. ``rng`` decides everything."""

    trace: list[list[float]]
    noise: Noise
    rng: random.Random
    level: float = 0.0
    """Log speed of the moment: drift and wandering so far."""
    segment: list[float] = field(default_factory=list)
    slope: float = field(init=False)

    def __post_init__(self) -> None:
        self.slope = self.rng.uniform(-1, 1) * self.noise.drift / DRIFT_STEPS

    def log_spell(self) -> float:
        """Return the log factor of the coming step and let its time pass."""
        if not self.segment:
            piece = self.rng.choice(self.trace)
            start = self.rng.randrange(len(piece) - SEGMENT_STEPS + 1)
            self.segment = piece[start : start + SEGMENT_STEPS]
        wander_sd = 0.5 * self.noise.drift / math.sqrt(DRIFT_STEPS)
        self.level += self.slope + self.rng.gauss(0, wander_sd)
        return self.noise.cv * self.segment.pop(0) + self.level

    def launch(self, job: JobSpec, spec: LaunchSpec, out_dir: Path) -> "Run":
        """Start a run; ``spec.settings["factor"]`` is what it takes of the baseline's time."""
        factor = spec.settings["factor"]
        assert isinstance(factor, float)
        return Run(machine=self, log_s=math.log(factor) + self.rng.gauss(0, self.noise.launch_sd))


@dataclass(kw_only=True)
class Run:
    """Implements `core.framework.Session`."""

    machine: Machine
    log_s: float
    step: int = 0

    def run_steps(self, num_steps: int, *, rehearse_s: float = 0.0) -> list[Observation]:
        """Run steps; a rehearsal lets one step's time pass."""
        if rehearse_s:
            self.machine.log_spell()
        return [self._one() for _ in range(num_steps)]

    def _one(self) -> Observation:
        seconds = math.exp(self.log_s + self.machine.log_spell())
        self.step += 1
        return STEP.model_copy(update={"step": self.step - 1, "step_time_s": seconds})

    def evaluate(self) -> EvalResult:
        """Not asked of it."""
        raise NotImplementedError

    def lengths(self) -> SampledLengths:
        """Not asked of it."""
        raise NotImplementedError

    def close(self) -> None:
        """Nothing to stop."""
