"""When a running trial is stopped early: it breaks a limit of the owner's, or it can no longer win."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import final

from steptune.core.job import LimitsSpec
from steptune.core.profile import NoiseFloor
from steptune.core.trial import Observation
from steptune.decide.stop import cannot_win
from steptune.stats.noise import worth_frac
from steptune.stats.sequential import sequential_ratio_interval
from steptune.trial.blocks import Pair
from steptune.trial.clear_lead import is_clear_loss
from steptune.trial.run import pair_times

MIN_PAIRS_TO_STOP = 2
"""Pairs before a trial may be stopped early: one pair has no interval."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class StopRule:
    """Ends a running trial that breaks a limit or can no longer win."""

    limits: LimitsSpec
    own_lag: int
    noise: NoiseFloor
    max_looks: int
    devices_ratio: float = 1.0
    """See `core.trial.Trial`."""

    def __call__(self, pairs: Sequence[Pair]) -> str | None:
        """Return why the trial should stop, or None."""
        steps = [step for pair in pairs for step in pair.candidate]
        return self._broken_limit(steps) or self._lost(pairs)

    def _broken_limit(self, steps: Sequence[Observation]) -> str | None:
        k3s = [step.mismatch.k3 for step in steps if step.mismatch is not None]
        if k3s and median(k3s) > self.limits.max_mismatch_k3:
            return f"breaks limits.max_mismatch_k3: {median(k3s):.3g} nat, allowed {self.limits.max_mismatch_k3:g}"
        oldest = max(step.lag_max for step in steps) - self.own_lag
        if oldest > self.limits.max_staleness:
            return f"breaks limits.max_staleness: {oldest} updates, allowed {self.limits.max_staleness}"
        return None

    def _lost(self, pairs: Sequence[Pair]) -> str | None:
        if len(pairs) < MIN_PAIRS_TO_STOP:
            return None
        candidate, incumbent = pair_times(pairs, self.devices_ratio)
        so_far = sequential_ratio_interval(candidate, incumbent, max_looks=self.max_looks)
        worth = worth_frac(self.noise)
        is_lost = worth is not None and is_clear_loss(pairs, self.noise, worth, self.devices_ratio)
        if not is_lost and not cannot_win(so_far, self.noise):
            return None
        return f"cannot win any more: ratio {so_far.value:.3f} ({so_far.low:.3f} to {so_far.high:.3f})"
