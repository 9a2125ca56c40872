"""Forecasts thousands of candidates and sorts them, for the search and for the table of a proposal.

Gives the same ratios as `forecast_change`, bit for bit (a test holds it), without the parts nobody sorts by. What a
candidate costs by the profile alone never changes, so it is priced once; residuals are put on after every trial.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from steptune.core.change import Change
from steptune.core.event import LearntFrom
from steptune.core.job import Objective
from steptune.core.profile import NoiseFloor, Profile
from steptune.core.work import PlannedWork, objective_weight
from steptune.forecast.curve import ForecastError
from steptune.forecast.interval import Apart, RatioInterval, apart, ratio_interval
from steptune.forecast.memory import fit_chance, fits, memory_peak
from steptune.forecast.model import fit
from steptune.forecast.residual import noise_sd
from steptune.forecast.taught import teach


@dataclass(frozen=True, kw_only=True, slots=True)
class Priced:
    """What the profile alone says of one candidate: ``Priced(index=17, raw_ratio=0.70, ...)``."""

    index: int
    """Position in the sequence that was priced."""
    raw_ratio: float
    """Candidate / baseline step time."""
    from_baseline: Apart
    weight: float
    """What the ratio is multiplied with to be one of the objective."""
    memory_fits: bool | None
    """None when too close to call or unknown."""
    fit_chance: float
    """See `memory.fit_chance`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ranked:
    """One candidate's place: ``Ranked(index=17, ratio=RatioInterval(...), memory_fits=True, fit_chance=1.0)``."""

    index: int
    """Position in the sequence that was ranked."""
    ratio: RatioInterval
    """Candidate / baseline of the objective, 80 %."""
    memory_fits: bool | None
    """None when too close to call or unknown."""
    fit_chance: float
    """See `memory.fit_chance`."""
    weight: float = 1.0
    """What the ratio of step times was multiplied with to be one of the objective."""

    @property
    def step(self) -> RatioInterval:
        """Candidate / baseline step time."""
        return _scaled(self.ratio, 1 / self.weight)


def price(
    *,
    profile: Profile,
    planned_baseline: PlannedWork,
    planned: Sequence[PlannedWork],
    changes: Sequence[Change],
    total_memory_bytes: int,
    headroom_frac: float,
    objective: Objective,
) -> list[Priced]:
    """Return candidates in their order; those the profile has no price for are left out.

    ``changes`` and ``planned`` belong together, place by place.

    Raises:
        ForecastError: the baseline itself has no price.
    """
    model = fit(profile, planned_baseline)
    priced: list[Priced] = []
    for index, (work, change) in enumerate(zip(planned, changes, strict=True)):
        try:
            step = model.predict(work)
        except ForecastError:
            continue
        peak = memory_peak(profile, planned_baseline, work)
        priced.append(
            Priced(
                index=index,
                raw_ratio=model.ratio(step),
                from_baseline=apart(model, step, change, work, planned_baseline),
                weight=objective_weight(objective, work, planned_baseline),
                memory_fits=fits(peak, total_memory_bytes=total_memory_bytes, headroom_frac=headroom_frac),
                fit_chance=fit_chance(peak, total_memory_bytes=total_memory_bytes, headroom_frac=headroom_frac),
            )
        )
    return priced


def rank(
    priced: Iterable[Priced],
    *,
    history: tuple[LearntFrom, ...],
    noise_floor: NoiseFloor | None,
) -> list[Ranked]:
    """Return candidates from fastest to slowest after what ``history`` taught."""
    noise = noise_sd(noise_floor)
    taught = teach(history, noise)
    ranked: list[Ranked] = []
    for each in priced:
        ratio = ratio_interval(each.from_baseline, taught, noise)
        ranked.append(
            Ranked(
                index=each.index,
                ratio=_scaled(ratio, each.weight),
                memory_fits=each.memory_fits,
                fit_chance=each.fit_chance,
                weight=each.weight,
            )
        )
    return sorted(ranked, key=lambda r: (r.ratio.mid, r.index))


def _scaled(ratio: RatioInterval, weight: float) -> RatioInterval:
    if weight == 1.0:
        return ratio
    return RatioInterval(mid=ratio.mid * weight, low=ratio.low * weight, high=ratio.high * weight)
