"""What each of the owner's limits costs in speed: printed, never acted on."""

from collections.abc import Sequence
from dataclasses import dataclass

from steptune.core.change import LimitPrice
from steptune.core.estimate import Estimate, Source
from steptune.core.job import LimitsSpec
from steptune.propose.ranked import NO_CHANGE, RankedChange


@dataclass(frozen=True, kw_only=True, slots=True)
class Relaxation:
    """One limit loosened, all others kept: ``Relaxation(limit="max_staleness", now="0", relaxed="1", ...)``."""

    limit: str
    now: str
    relaxed: str
    limits: LimitsSpec


def relaxations(limits: LimitsSpec) -> tuple[Relaxation, ...]:
    """Return each limit that has a price, one notch looser: the next staleness, corrections, half the head-room."""
    staleness, headroom = limits.max_staleness, limits.memory_headroom_frac
    found = [_relaxation(limits, "max_staleness", staleness, staleness + 1)]
    if not limits.allow_corrections:
        found.append(_relaxation(limits, "allow_corrections", False, True))
    if headroom > 0:
        found.append(_relaxation(limits, "memory_headroom_frac", headroom, headroom / 2))
    return tuple(found)


def price_of_limits(
    allowed: Sequence[RankedChange], blocked: Sequence[tuple[Relaxation, Sequence[RankedChange]]]
) -> tuple[LimitPrice, ...]:
    """Return the price of each limit that blocks at least one change.

    Args:
        allowed: forecasts of the changes that keep every limit.
        blocked: for each relaxation, forecasts of the changes that only this limit blocks.

    The gain is best allowed / best blocked step time. It is never below 1: a looser limit may be left unused.
    """
    best = min((NO_CHANGE, *allowed), key=lambda r: r.mid)
    return tuple(_price(best, relaxation, min(ratios, key=lambda r: r.mid)) for relaxation, ratios in blocked if ratios)


def _price(allowed: RankedChange, relaxation: Relaxation, blocked: RankedChange) -> LimitPrice:
    return LimitPrice(
        limit=relaxation.limit,
        now=relaxation.now,
        relaxed=relaxation.relaxed,
        gain=Estimate(
            value=max(1.0, allowed.mid / blocked.mid),
            low=max(1.0, allowed.low / blocked.high),
            high=max(1.0, allowed.high / blocked.low),
            unit="x",
            source=Source.FORECAST,
            note="80 % interval, both forecasts at their worst against each other",
        ),
    )


def _relaxation(limits: LimitsSpec, name: str, now: float, relaxed: float) -> Relaxation:
    looser = limits.model_copy(update={name: relaxed})
    return Relaxation(limit=name, now=_text(now), relaxed=_text(relaxed), limits=looser)


def _text(value: float) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:g}"
