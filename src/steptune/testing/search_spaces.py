"""Spaces to search in, drawn by seed: six shapes of real tuning, each with a known optimum and forecasts that err.

Every shape fixes which knobs there are and in which range their factors lie; a seed draws the factors. What the
forecaster believes of them is the truth times an error (`misled`), whose size is the median relative error of a
configuration's forecast step (the deceptive shape errs by itself as well). The surprise: a searcher suffers more from
it than the median says, because it looks for exactly those configurations whose error flatters them.
"""

import math
import random
import statistics
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import final

from steptune.core.knob import KnobValue, Restart, Settings
from steptune.core.phase import Role
from steptune.testing.fake_space import CORRECTION, SCHEDULE, FakeKnob, FakePair, seconds_of, side_seconds

NUM_ERROR_DRAWS = 400
"""Random configurations whose forecast error is measured when beliefs are scaled to a wanted one."""

Range = tuple[float, float]
"""Factors drawn log-uniformly between two ends."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class SearchSpace:
    """One drawn space: ``SearchSpace(shape="rollout_bound", seed=3, knobs=(...), pairs=())``."""

    shape: str
    seed: int
    knobs: tuple[FakeKnob, ...]
    pairs: tuple[FakePair, ...] = ()

    @property
    def baseline(self) -> dict[str, KnobValue]:
        """The first value of every knob."""
        return {knob.name: next(iter(knob.factors)) for knob in self.knobs}

    @property
    def num_configurations(self) -> int:
        """Every combination, those that cannot run included."""
        return math.prod(len(knob.factors) for knob in self.knobs)

    def true_ratio(self, settings: Settings) -> float:
        """Return step time / the baseline's, without noise."""
        return seconds_of(self.knobs, settings, self.pairs) / seconds_of(self.knobs, self.baseline, self.pairs)


def draw_space(shape: str, seed: int) -> SearchSpace:
    """Draw the space of one seed, believed without error.

    Raises:
        KeyError: no such shape.
    """
    rng = random.Random(f"{shape} {seed}")
    knobs, pairs = SHAPES[shape](rng)
    return SearchSpace(shape=shape, seed=seed, knobs=knobs, pairs=pairs)


def misled(space: SearchSpace, error: float, *, bias: float = 0.0) -> SearchSpace:
    """Return the space with beliefs that are off.

    Args:
        space: as drawn.
        error: median relative error that is added to a configuration's forecast, 0.1 for 10 %.
        bias: log factor by which every value but the baseline's is believed faster than it is.
    """
    if error == 0 and bias == 0:
        return space
    rng = random.Random(f"belief {space.shape} {space.seed}")
    noise = {k.name: {v: rng.gauss(0, 1) for v in list(k.factors)[1:]} for k in space.knobs}
    scale = error
    for _ in range(3):  # the error of a step is nearly linear in that of its factors
        reached = median_difference(_with_beliefs(space, noise, scale, 0.0), space)
        scale *= error / reached if reached > 0 else 1.0
    return _with_beliefs(space, noise, scale, bias)


def median_difference(ours: SearchSpace, theirs: SearchSpace) -> float:
    """Return the median of |ours / theirs - 1| of the believed step-time ratio over random configurations."""
    rng = random.Random(f"draws {ours.shape} {ours.seed}")
    base = ours.baseline
    differences: list[float] = []
    for _ in range(NUM_ERROR_DRAWS):
        drawn = {k.name: rng.choice(list(k.factors)) for k in ours.knobs}
        drawn.update({name: base[name] for name in ("schedule", "correction") if name in base})
        ratios = [_believed_s(space, drawn) / _believed_s(space, base) for space in (ours, theirs)]
        differences.append(abs(ratios[0] / ratios[1] - 1))
    return statistics.median(differences)


def _believed_s(space: SearchSpace, settings: Settings) -> float:
    return sum(side_seconds(space.knobs, settings, believed=True))


def _with_beliefs(
    space: SearchSpace, noise: dict[str, dict[KnobValue, float]], scale: float, bias: float
) -> SearchSpace:
    def believed(knob: FakeKnob) -> dict[KnobValue, float]:
        start = knob.believed or knob.factors
        off = noise[knob.name]
        return {v: f * math.exp(scale * off[v] - bias) if v in off else f for v, f in start.items()}

    free = ("schedule", "correction")
    knobs = tuple(k if k.name in free else replace(k, believed=believed(k)) for k in space.knobs)
    return replace(space, knobs=knobs)


Drawn = tuple[tuple[FakeKnob, ...], tuple[FakePair, ...]]
ROLLOUT, TRAINER = Role.ROLLOUT, Role.TRAINER


def _lever(rng: random.Random, name: str, side: Role, *ranges: Range, restart: Restart = Restart.RELAUNCH) -> FakeKnob:
    """Return a knob of one value more than there are ranges; value 0 is the baseline's."""
    drawn: dict[KnobValue, float] = {0: 1.0}
    for value, (low, high) in enumerate(ranges, 1):
        drawn[value] = math.exp(rng.uniform(math.log(low), math.log(high)))
    return FakeKnob(name=name, side=side, factors=drawn, restart=restart)


GAIN, SMALL, MIXED, NOTHING, LOSS = (0.6, 0.9), (0.94, 0.98), (0.8, 1.2), (0.985, 1.02), (1.02, 1.4)
"""Ranges of factors: a lever worth having, one near the noise, one that may be either, none, one that costs."""


def _rollout_bound(rng: random.Random) -> Drawn:
    return (
        _lever(rng, "concurrency", ROLLOUT, GAIN, LOSS),
        _lever(rng, "compaction", ROLLOUT, GAIN, restart=Restart.HOT),
        _lever(rng, "share_prefill", ROLLOUT, MIXED, restart=Restart.HOT),
        _lever(rng, "graphs", ROLLOUT, GAIN),
        _lever(rng, "cache_frac", ROLLOUT, MIXED, MIXED),
        _lever(rng, "layout", TRAINER, GAIN, MIXED, restart=Restart.HOT),
        _lever(rng, "recompute", TRAINER, MIXED),
        _lever(rng, "micro_batch", TRAINER, MIXED, LOSS, restart=Restart.HOT),
    ), ()


def _overlap(rng: random.Random) -> Drawn:
    return (
        SCHEDULE_RELAUNCHED,
        CORRECTION,
        _split(),
        _lever(rng, "layout", TRAINER, GAIN, MIXED, restart=Restart.HOT),
        _lever(rng, "graphs", ROLLOUT, GAIN),
        _lever(rng, "concurrency", ROLLOUT, MIXED, MIXED),
        _lever(rng, "recompute", TRAINER, MIXED),
    ), ()


def _deceptive(rng: random.Random) -> Drawn:
    """What looks best is slow together, does nothing, or dies; what is best looks like little."""
    placebo = FakeKnob(
        name="fused", side=TRAINER, factors={0: 1.0, 1: 1.0}, believed={0: 1.0, 1: 0.6}, restart=Restart.RELAUNCH
    )
    hungry = FakeKnob(
        name="recompute", side=TRAINER, factors={0: 1.0, 1: 0.6}, fails_with={1: "oom"}, restart=Restart.RELAUNCH
    )
    shy = FakeKnob(
        name="cache_frac",
        side=ROLLOUT,
        factors={0: 1.0, 1: rng.uniform(0.6, 0.7)},
        believed={0: 1.0, 1: 0.97},
        restart=Restart.RELAUNCH,
    )
    graphs, waves = _lever(rng, "graphs", ROLLOUT, GAIN), _lever(rng, "waves", ROLLOUT, GAIN, LOSS)
    clash = FakePair(first=("graphs", 1), second=("waves", 1), side=ROLLOUT, factor=rng.uniform(1.8, 2.4))
    others = (
        _lever(rng, "layout", TRAINER, GAIN, MIXED, restart=Restart.HOT),
        _lever(rng, "compaction", ROLLOUT, MIXED, restart=Restart.HOT),
        _lever(rng, "micro_batch", TRAINER, MIXED, LOSS),
    )
    return (placebo, hungry, shy, graphs, waves, *others), (clash,)


def _nothing_helps(rng: random.Random) -> Drawn:
    return (
        _lever(rng, "concurrency", ROLLOUT, LOSS, LOSS),
        _lever(rng, "compaction", ROLLOUT, NOTHING, restart=Restart.HOT),
        _lever(rng, "graphs", ROLLOUT, LOSS),
        _lever(rng, "cache_frac", ROLLOUT, NOTHING, LOSS),
        _lever(rng, "layout", TRAINER, LOSS, LOSS, restart=Restart.HOT),
        _lever(rng, "recompute", TRAINER, LOSS),
        _lever(rng, "micro_batch", TRAINER, NOTHING, LOSS, restart=Restart.HOT),
    ), ()


def _small_gains(rng: random.Random) -> Drawn:
    names = ("concurrency", "compaction", "graphs", "cache_frac", "layout", "micro_batch", "threads")
    sides = (ROLLOUT,) * 4 + (TRAINER,) * 3
    return tuple(
        _lever(
            rng,
            name,
            side,
            SMALL,
            MIXED if number % 3 else LOSS,
            restart=Restart.HOT if number % 2 else Restart.RELAUNCH,
        )
        for number, (name, side) in enumerate(zip(names, sides, strict=True))
    ), ()


def _large(rng: random.Random) -> Drawn:
    rollout = ("concurrency", "graphs", "cache_frac", "prefix", "routing", "dtype_kernel")
    trainer = ("layout", "micro_batch", "recompute", "offload", "threads")
    values = (GAIN, MIXED), (MIXED, LOSS), (SMALL, MIXED)
    made = [
        _lever(rng, name, side, *values[number % 3], restart=Restart.HOT if number % 4 == 0 else Restart.RELAUNCH)
        for side, names in ((ROLLOUT, rollout), (TRAINER, trainer))
        for number, name in enumerate(names)
    ]
    return tuple(made), ()


SCHEDULE_RELAUNCHED = replace(SCHEDULE, restart=Restart.RELAUNCH)


def _split() -> FakeKnob:
    """Devices of the rollout over those of the trainer: 1 to 1 now, then 3 to 1, 1 to 3 and 5 to 3.

    Both sides share all devices while they take turns, so a split alone only loses; overlapped it is what balances.
    """
    shares = {0: 0.5, 1: 0.75, 2: 0.25, 3: 0.625}
    return FakeKnob(
        name="split",
        side=ROLLOUT,
        factors={value: 0.5 / share for value, share in shares.items()},
        across={value: 0.5 / (1 - share) for value, share in shares.items()},
        restart=Restart.REALLOCATE,
    )


SHAPES: dict[str, Callable[[random.Random], Drawn]] = {
    "rollout_bound": _rollout_bound,
    "overlap": _overlap,
    "deceptive": _deceptive,
    "nothing_helps": _nothing_helps,
    "small_gains": _small_gains,
    "large": _large,
}
"""Every shape: 1,296, 576, 864, 648, 2,187 and 177,147 configurations."""
