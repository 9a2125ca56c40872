"""From what each search found, and when, to regret curves, intervals and claims.

*Gain* is the part of the best possible speed-up that the incumbent really has: (speed-up - 1) / (best - 1), by the
truth and not by what was measured. A claim needs the 95 % interval of the paired difference over seeds to exclude 0.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from search_instances import MAX_STEPS

from steptune.stats.bootstrap import bootstrap_interval, quantile
from steptune.stats.intervals import mean_interval

COSTS = (20, 30, 40, 60, 80, 100, 150, 200, 300, 400)
"""Steps of the baseline at which curves are read."""
CLAIM_COSTS = (40, 100, 400)
GOAL_FRAC = 0.9
NO_GAIN_BELOW = 1.03
"""Best speed-ups below this are no gain that three per cent of noise would let anybody have."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """What one search found: ``Found(best=1.9, steps=(44.1, 80.3), ratios=(0.6, 0.55), stopped=120.0)``."""

    best: float
    """Best possible speed-up."""
    steps: tuple[float, ...]
    """Cost at the end of each trial, in steps of the baseline."""
    ratios: tuple[float, ...]
    """True ratio of the incumbent then."""
    stopped: float
    """Cost when the search ended by itself or was cut off."""

    def speedup_at(self, cost: float) -> float:
        """Return the true speed-up of the incumbent once ``cost`` is spent."""
        held = [ratio for step, ratio in zip(self.steps, self.ratios, strict=True) if step <= cost]
        return 1 / held[-1] if held else 1.0

    def gain_at(self, cost: float) -> float:
        """Return the part of the best gain; where there is none to have, 1 for the baseline and less for a loss."""
        if self.best < NO_GAIN_BELOW:
            return 1.0 + min(0.0, self.speedup_at(cost) - 1.0)
        return (self.speedup_at(cost) - 1) / (self.best - 1)

    @property
    def cost_to_goal(self) -> float:
        """Cost of the first trial after which the goal is held; infinite if never."""
        return next((step for step in self.steps if self.gain_at(step) >= GOAL_FRAC), math.inf)


def summary(runs: Sequence[Found]) -> dict[str, object]:
    """Return one arm's curve over its seeds."""
    curve = {str(cost): [run.gain_at(cost) for run in runs] for cost in COSTS}
    goals = [run.cost_to_goal for run in runs]
    capped = [min(goal, 2 * MAX_STEPS) for goal in goals]
    middle = bootstrap_interval(capped, statistics.median, seed=0)
    return {
        "num_seeds": len(runs),
        "gain_median": {cost: round(statistics.median(g), 3) for cost, g in curve.items()},
        "gain_quartiles": {cost: [round(quantile(g, q), 3) for q in (0.25, 0.75)] for cost, g in curve.items()},
        "gain_mean": {cost: _rounded(mean_interval(g)) for cost, g in curve.items()},
        "steps_to_90_percent": [_or_never(v) for v in (middle.value, middle.low, middle.high)],
        "num_never_90_percent": sum(math.isinf(goal) for goal in goals),
        "num_below_90_percent_at_end": sum(run.gain_at(MAX_STEPS) < GOAL_FRAC for run in runs),
        "num_losses_held_at_end": sum(run.speedup_at(math.inf) < 0.995 for run in runs),
        "steps_when_stopped_median": round(statistics.median(min(run.stopped, MAX_STEPS) for run in runs), 1),
        "num_trials_median": statistics.median(len(run.steps) for run in runs),
    }


def claim(ours: Sequence[Found], theirs: Sequence[Found], cost: float) -> dict[str, object]:
    """Return the mean paired difference of gains at a cost, and what may be said of it."""
    differences = [a.gain_at(cost) - b.gain_at(cost) for a, b in zip(ours, theirs, strict=True)]
    if max(differences) == min(differences):
        return {"difference": [round(differences[0], 3)] * 3, "verdict": "not shown"}
    interval = mean_interval(differences)
    verdict = "better" if interval.low > 0 else "worse" if interval.high < 0 else "not shown"
    return {"difference": _rounded(interval), "verdict": verdict}


def _rounded(interval: object) -> list[float]:
    return [round(getattr(interval, name), 3) for name in ("value", "low", "high")]


def _or_never(cost: float) -> float | None:
    return None if cost > MAX_STEPS * 1.5 else round(cost, 1)
