"""What the fake framework's knobs do. Every trap of real tuning has a knob here.

The step is ``rollout + train`` (or their maximum when one step off), each side a constant times the factors
of its knobs, and of pairs that act together. The optimum is therefore known by construction: see `best_settings`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product

from steptune.core.knob import Effect, KnobSpec, KnobValue, Restart, Settings
from steptune.core.phase import Role


@dataclass(frozen=True, kw_only=True, slots=True)
class FakeKnob:
    """One knob: its first value is the baseline's."""

    name: str
    side: Role
    factors: dict[KnobValue, float]
    """Value -> factor on its side's seconds, as the machine really behaves."""
    effect: Effect = Effect.NONE
    restart: Restart = Restart.HOT
    believed: dict[KnobValue, float] = field(default_factory=dict[KnobValue, float])
    """Factors the cost probe reports; empty means the truth."""
    across: dict[KnobValue, float] = field(default_factory=dict[KnobValue, float])
    """Factor on the *other* side's seconds, known to the forecast: what a new split of devices does. Empty means 1."""
    unpriced: frozenset[KnobValue] = frozenset()
    """Values that no cost was probed for: the forecast refuses them."""
    mismatch_k3: dict[KnobValue, float] = field(default_factory=dict[KnobValue, float])
    """Value -> k3 that the rollout-trainer gap rises to."""
    reward_drop: dict[KnobValue, float] = field(default_factory=dict[KnobValue, float])
    """Value -> loss of final held-out reward."""
    parity_distance: dict[KnobValue, float] = field(default_factory=dict[KnobValue, float])
    """Value -> relative distance of the replayed update."""
    hides_metrics: frozenset[KnobValue] = frozenset()
    """Values under which the run reports no mismatch."""
    hides_arrivals: frozenset[KnobValue] = frozenset()
    """Values under which the run does not say which weights its rollouts were made with."""
    shortens: dict[KnobValue, float] = field(default_factory=dict[KnobValue, float])
    """Value -> factor on the length of answers where nobody forces it."""
    unhanded: frozenset[KnobValue] = frozenset()
    """Values under which one tensor is left out of every hand-over from the confirmation's seeds on, not before."""
    cores: dict[KnobValue, float] = field(default_factory=dict[KnobValue, float])
    """Value -> cores that the run holds; empty means `FAKE_CORES`."""
    fails_with: dict[KnobValue, str] = field(default_factory=dict[KnobValue, str])
    """Value -> how a launch ends: ``oom``, ``crash`` or ``nan``."""
    memory_bytes: dict[KnobValue, int] = field(default_factory=dict[KnobValue, int])
    """Value -> memory that a run needs for it."""
    is_memory_known: bool = True
    """Whether the forecast knows of that memory."""
    fails_late: frozenset[KnobValue] = frozenset()
    """Values whose launches fail from the confirmation's seeds on, not before."""

    def spec(self) -> KnobSpec:
        """The knob as the tuner sees it."""
        return KnobSpec(
            name=self.name,
            side=self.side,
            values=tuple(self.factors),
            effect=self.effect,
            restart=self.restart,
            what=f"fake knob of the {self.side}",
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class FakePair:
    """Two values that together do more (or less) than each alone; only the machine knows, no forecast does.

    Example: ``FakePair(first=("graph", True), second=("waves", 64), side=Role.ROLLOUT, factor=1.5)``.
    """

    first: tuple[str, KnobValue]
    second: tuple[str, KnobValue]
    side: Role
    factor: float
    """On that side's seconds where both values are set."""

    def holds(self, settings: Settings) -> bool:
        """Return whether both values are set."""
        return all(settings.get(knob) == value for knob, value in (self.first, self.second))


FAKE_CORES = 2.0
"""Cores that a fake run holds where no knob says otherwise."""

PACKING = FakeKnob(name="layout", side=Role.TRAINER, factors={"padded": 1.0, "packed": 0.5})
"""Honest gain on the trainer."""

COMPACTION = FakeKnob(name="compact_finished", side=Role.ROLLOUT, factors={False: 1.0, True: 0.6})
"""Honest gain on the rollout."""

LEAKY_DTYPE = FakeKnob(
    name="rollout_dtype",
    side=Role.ROLLOUT,
    factors={"fp32": 1.0, "int4": 0.3},
    effect=Effect.PRECISION,
    mismatch_k3={"int4": 0.5},
)
"""Faster, but the trainer no longer agrees with the sampler."""

LAZY_ANSWERS = FakeKnob(
    name="rollout_kernel",
    side=Role.ROLLOUT,
    factors={"exact": 1.0, "sloppy": 0.5},
    effect=Effect.PRECISION,
    reward_drop={"sloppy": 0.2},
)
"""Faster with a clean gap, but the model learns less."""

PLACEBO = FakeKnob(name="placebo", side=Role.TRAINER, factors={"off": 1.0, "on": 1.0}, believed={"off": 1.0, "on": 0.6})
"""Forecast to help; does nothing."""

SILENT = FakeKnob(
    name="monitoring",
    side=Role.ROLLOUT,
    factors={"full": 1.0, "none": 0.4},
    effect=Effect.PRECISION,
    hides_metrics=frozenset({"none"}),
)
"""Faster because it measures nothing: cannot be guarded, so cannot be adopted."""

UNSEEN_WEIGHTS = FakeKnob(
    name="handover",
    side=Role.ROLLOUT,
    factors={"copy": 1.0, "stream": 0.5},
    hides_arrivals=frozenset({"stream"}),
)
"""A 'none' knob that is faster because nobody looks at what was handed over."""

HALVED_GRADIENT = FakeKnob(
    name="micro_batch_tokens",
    side=Role.TRAINER,
    factors={512: 1.0, 8192: 0.4},
    parity_distance={8192: 0.5},
)
"""A 'none' knob that changes the update."""

SHORT_ANSWERS = FakeKnob(
    name="stop_check", side=Role.ROLLOUT, factors={"every": 1.0, "block": 0.5}, shortens={"block": 0.8}
)
"""A 'none' knob that ends answers early. Timed arms are forced to equal lengths and do not show it."""

LOST_TENSOR = FakeKnob(
    name="bucket", side=Role.ROLLOUT, factors={"one": 1.0, "many": 0.5}, unhanded=frozenset({"many"})
)
"""A 'none' knob that leaves a tensor behind, but not on the seeds of a trial."""

HUNGRY = FakeKnob(name="recompute", side=Role.TRAINER, factors={True: 1.0, False: 0.5}, fails_with={False: "oom"})
"""Forecast to help; runs out of memory."""

CRASHING = FakeKnob(name="graph", side=Role.ROLLOUT, factors={False: 1.0, True: 0.7}, fails_with={True: "crash"})
"""Forecast to help; dies at launch."""

LATE_CRASH = FakeKnob(
    name="streams",
    side=Role.ROLLOUT,
    factors={1: 1.0, 4: 0.5},
    fails_with={4: "crash"},
    fails_late=frozenset({4}),
)
"""Runs through every trial and dies in the confirmation."""

LATE_HUNGRY = FakeKnob(
    name="cache",
    side=Role.ROLLOUT,
    factors={"small": 1.0, "big": 0.5},
    fails_with={"big": "oom"},
    fails_late=frozenset({"big"}),
)
"""Fits in every trial and runs out of memory in the confirmation."""

POISONED = FakeKnob(name="fused_norm", side=Role.TRAINER, factors={False: 1.0, True: 0.7}, fails_with={True: "nan"})
"""Faster, but its loss and gradient norm are NaN."""

ONE_CORE = FakeKnob(name="threads", side=Role.TRAINER, factors={2: 1.0, 1: 1.4}, cores={2: 2.0, 1: 1.0})
"""Slower on half the cores: a loss in step time, a gain in device-seconds."""

SCHEDULE = FakeKnob(
    name="schedule", side=Role.TRAINER, factors={"sync": 1.0, "one_step_off": 1.0}, effect=Effect.STALENESS
)
"""Overlaps the two sides, on weights one update old. Runs only with `CORRECTION`, under limits that allow both."""

CORRECTION = FakeKnob(name="correction", side=Role.TRAINER, factors={"none": 1.0, "tis": 1.0}, effect=Effect.STALENESS)
"""Weighs stale tokens; costs nothing here."""


def best_settings(knobs: tuple[FakeKnob, ...], harmless: Settings) -> dict[str, KnobValue]:
    """Return the fastest configuration among the harmless values of every knob (``harmless`` pins the others)."""
    free = [k for k in knobs if k.name not in harmless]
    best = min(
        product(*(k.factors for k in free)),
        key=lambda values: seconds_of(knobs, {**harmless, **{k.name: v for k, v in zip(free, values, strict=True)}}),
    )
    return {**harmless, **{k.name: v for k, v in zip(free, best, strict=True)}}


def cores_of(knobs: tuple[FakeKnob, ...], settings: Settings) -> float:
    """Return the cores that a fake run holds."""
    return next((k.cores[settings[k.name]] for k in knobs if k.cores), FAKE_CORES)


def memory_of(knobs: Sequence[FakeKnob], settings: Settings) -> int:
    """Return the memory that a fake run needs for its knobs."""
    return sum(k.memory_bytes.get(settings[k.name], 0) for k in knobs)


def seconds_of(knobs: tuple[FakeKnob, ...], settings: Settings, pairs: Sequence[FakePair] = ()) -> float:
    """Return the step time of ``settings`` in virtual seconds, without noise."""
    rollout, train = side_seconds(knobs, settings, pairs)
    return max(rollout, train) if is_one_step_off(settings) else rollout + train


def is_one_step_off(settings: Settings) -> bool:
    """Return whether the two sides overlap."""
    return settings.get("schedule") == "one_step_off"


ROLLOUT_S = 0.6
"""Seconds of the baseline's rollout (virtual)."""

TRAIN_S = 0.4
"""Seconds of the baseline's update (virtual)."""


def side_seconds(
    knobs: tuple[FakeKnob, ...], settings: Settings, pairs: Sequence[FakePair] = (), *, believed: bool = False
) -> tuple[float, float]:
    """Return virtual seconds of (rollout, train) under ``settings``; a belief knows nothing of ``pairs``."""
    sides = {Role.ROLLOUT: ROLLOUT_S, Role.TRAINER: TRAIN_S}
    for knob in knobs:
        factors = knob.believed or knob.factors if believed else knob.factors
        sides[knob.side] *= factors[settings[knob.name]]
        if knob.across:
            sides[_OTHER[knob.side]] *= knob.across[settings[knob.name]]
    for pair in () if believed else pairs:
        if pair.holds(settings):
            sides[pair.side] *= pair.factor
    return sides[Role.ROLLOUT], sides[Role.TRAINER]


_OTHER = {Role.ROLLOUT: Role.TRAINER, Role.TRAINER: Role.ROLLOUT}
