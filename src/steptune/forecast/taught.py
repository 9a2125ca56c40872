"""What trials teach, kept apart by part of the step and by knob: decode's error is no reason to distrust training.

::

    trial   ->  per part    ln(measured seconds / forecast seconds)      shared among the knobs that may touch the part
            ->  layout      ln(measured step / the step that its *measured* parts would make)     among all its knobs

A part of a candidate is corrected by what knobs it shares with trials taught about *that* part, and only where the
candidate's own work for the part differs from the baseline's. Which knobs may touch a part is read off the plans: those
that choose the cost curves of other parts alone may not. Surprise: a trial without measured parts (an old journal, a
framework that tells no phases) still teaches, about whole steps, as every trial did before. A replayed half teaches
its part alone: no step was measured, so nothing is said about the layout.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import final

from steptune.core.change import Change
from steptune.core.event import LearntFrom, Part
from steptune.forecast.parts import PARTS, PartSeconds
from steptune.forecast.residual import MoveKey, Residuals, learn, move_keys

PART_SD: Mapping[Part, float] = {"rollout": 0.06, "train": 0.09, "load": 0.2, "handover": 0.2}
"""Standard deviation of the log error of a part's seconds for one knob that changes them, before any trial. Priors,
from the errors by part of the embedded first forecasts of the first prospective campaign (robust deviations of all
touched parts: 0.09, 0.16, 0.38 and 0.15, with two knobs each in the median; docs/design/scoreboard.md)."""

LAYOUT_SD = 0.02
"""The same of the step that given parts make, for one move: 0.023 in the same trials."""

LEAST_PART_FRAC = 0.02
"""Part of the baseline's step below which a part's measured seconds are mostly clock noise and teach nothing."""

PART_NOISE_SD = 0.04
"""Standard deviation (log) of a part's measured ratio over a dozen steps, beside the step's own noise. Prior."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Touched:
    """A candidate's parts whose work differs from the baseline's, each with the moves that may have done it."""

    by_part: Mapping[Part, tuple[MoveKey, ...]]
    every: tuple[MoveKey, ...]


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Taught:
    """Residuals of parts, of the layout, and of whole steps."""

    parts: Mapping[Part, Residuals]
    layout: Residuals
    whole: Residuals
    """From trials without measured parts."""
    trials: tuple[str, ...]
    _factors: dict[tuple[Part, tuple[MoveKey, ...]], float] = field(
        default_factory=dict[tuple[Part, tuple[MoveKey, ...]], float]
    )

    def factors(self, touched: Touched) -> dict[Part, float]:
        """Return what the seconds of each touched part are multiplied with."""
        return {part: self._factor(part, keys) for part, keys in touched.by_part.items()}

    def step_factor(self, touched: Touched) -> float:
        """Return what the step made of corrected parts is multiplied with."""
        return math.exp(self.layout.correction_of(touched.every) + self.whole.correction_of(touched.every))

    def part_variance(self, part: Part, keys: Sequence[MoveKey]) -> float:
        """Return the variance of the log of a touched part's corrected seconds."""
        return self.parts[part].variance_of(keys)

    def unsettled(self, touched: Touched) -> float:
        """Return the part of the priors that trials of whole steps have not settled, 0..1."""
        prior = self.whole.prior_var * len(touched.every)
        return self.whole.variance_of(touched.every) / prior if prior > 0 and self.whole.trials else 1.0

    def num_used(self, touched: Touched) -> int:
        """Return how many learnt coefficients a forecast draws on."""
        used = [(self.parts[part], keys) for part, keys in touched.by_part.items()]
        used += [(self.layout, touched.every), (self.whole, touched.every)]
        return sum(key in residuals.mean for residuals, keys in used for key in keys)

    def _factor(self, part: Part, keys: tuple[MoveKey, ...]) -> float:
        known = self._factors.get((part, keys))
        if known is None:
            known = self._factors[part, keys] = math.exp(self.parts[part].correction_of(keys))
        return known


def touched(
    change: Change, plans: Sequence[Mapping[Part, frozenset[str]]], ours: PartSeconds, base: PartSeconds
) -> Touched:
    """Return which parts a change touches, and by which moves.

    ``plans``: knobs that choose each part's curves, in the baseline's plan and in the candidate's (`parts.priced_by`).
    """
    own = {part: frozenset().union(*(plan.get(part, frozenset()) for plan in plans)) for part in PARTS}
    by_part: dict[Part, tuple[MoveKey, ...]] = {}
    for part in PARTS:
        if getattr(ours, part) != getattr(base, part):
            others = frozenset().union(*(own[other] for other in PARTS if other != part)) - own[part]
            keys = tuple((move.knob, move.new) for move in change.moves if move.knob not in others)
            by_part[part] = keys or move_keys(change)
    return Touched(by_part=by_part, every=move_keys(change))


def teach(history: Sequence[LearntFrom], noise: float) -> Taught:
    """Learn from finished trials. ``noise`` is the log standard deviation of a measured step ratio."""
    told = [trial for trial in history if trial.laid_out_ratio is not None]
    layout = [trial.model_copy(update={"raw_forecast_ratio": trial.laid_out_ratio}) for trial in told]
    part_noise = math.hypot(noise, PART_NOISE_SD)
    parts: dict[Part, Residuals] = {part: learn(_of_part(told, part), part_noise, PART_SD[part]) for part in PARTS}
    whole = learn([trial for trial in history if trial.laid_out_ratio is None], noise)
    learnt_layout = learn(layout, noise, LAYOUT_SD)
    used = {*whole.trials, *learnt_layout.trials, *(half.change.signature for half in told if _is_half(half))}
    trials = tuple(trial.change.signature for trial in history if trial.change.signature in used)
    return Taught(parts=parts, layout=learnt_layout, whole=whole, trials=trials)


def _is_half(taught: LearntFrom) -> bool:
    return taught.measured_ratio is None


def _of_part(history: Sequence[LearntFrom], part: Part) -> list[LearntFrom]:
    """Return what trials say of one part, as if its knobs had been the whole change and its seconds the whole step."""
    found: list[LearntFrom] = []
    for trial in history:
        for seen in trial.parts:
            if seen.part == part and max(seen.raw_frac, seen.measured_frac) >= LEAST_PART_FRAC:
                moves = tuple(move for move in trial.change.moves if move.knob in seen.knobs)
                change = trial.change.model_copy(update={"moves": moves})
                found.append(
                    LearntFrom(change=change, raw_forecast_ratio=seen.raw_frac, measured_ratio=seen.measured_frac)
                )
    return found
