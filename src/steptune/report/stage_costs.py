"""What each stage of the session cost, as booked by its own event, and what had been kept for it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, final

from steptune.core.estimate import Estimate
from steptune.core.event import Reserved, Waterfall
from steptune.report.numbers import derived, measured
from steptune.report.session_view import SessionView


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class StageCost:
    """One line of the bill: ``StageCost(stage="trials", num_runs=5, wall_s=201.0, device_s=398.0)``."""

    stage: str
    num_runs: int
    wall_s: float
    device_s: float
    """Core-seconds, start-up and warm-up included."""
    kept_s: float | None = None
    """Wall seconds that the search had left for it; None where nothing says so."""


class _Booked(Protocol):
    @property
    def cost_wall_s(self) -> float: ...

    @property
    def cost_device_s(self) -> float: ...


def stage_costs(view: SessionView) -> tuple[StageCost, ...]:
    """Return the stages that ran, in session order; a stage without any event is left out."""
    confirmations = (*view.confirmations, *view.failed_confirmations)
    kept = {each.signature: each for each in view.reserves}
    tested = [kept.get(each.signature) for each in view.reward_tests]
    stages = (
        _stage("profile of the baseline", [p for p in view.profiles if p.label == "baseline"]),
        _stage("sides replayed before trials", view.halves),
        _stage("trials", [end.trial for end in view.trial_ends]),
        _stage("reward test", view.reward_tests, [each and each.reward_s for each in tested]),
        _stage("waterfall", view.waterfalls, [_kept_for(each, kept) for each in view.waterfalls]),
        _stage("confirmation", confirmations, [(r := kept.get(c.signature)) and r.confirm_s for c in confirmations]),
        _stage("profile of the tuned job", [p for p in view.profiles if p.label == "tuned"]),
    )
    return tuple(stage for stage in stages if stage.num_runs)


def _stage(name: str, runs: Sequence[_Booked], kept_s: Sequence[float | None] = (None,)) -> StageCost:
    known = [each for each in kept_s if each is not None]
    return StageCost(
        stage=name,
        num_runs=len(runs),
        wall_s=sum(run.cost_wall_s for run in runs),
        device_s=sum(run.cost_device_s for run in runs),
        kept_s=sum(known) if known and len(known) == len(kept_s) else None,
    )


def _kept_for(waterfall: Waterfall, kept: dict[str, Reserved]) -> float | None:
    """Return what was kept for a waterfall, whose last row is its winner."""
    reserve = kept.get(waterfall.rows[-1].signature)
    return None if reserve is None else reserve.waterfall_s


def total_cost(view: SessionView) -> tuple[Estimate, Estimate]:
    """Return wall and device cost in seconds.

    The session's own total until its decision, which is what the decision pays back; the sum of the finished stages
    while there is neither a decision nor an end.
    """
    totals = view.decision or view.ended
    if totals is not None:
        return measured(totals.cost_wall_s, "s"), measured(totals.cost_device_s, "s")
    stages = stage_costs(view)
    note = "sum of the finished stages"
    return (
        derived(sum(stage.wall_s for stage in stages), "s", note=note),
        derived(sum(stage.device_s for stage in stages), "s", note=note),
    )
