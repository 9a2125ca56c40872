"""What each stage of the session cost, as booked by its own event."""

from dataclasses import dataclass
from typing import final

from steptune.core.estimate import Estimate
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


def stage_costs(view: SessionView) -> tuple[StageCost, ...]:
    """Return the stages that ran, in session order; a stage without any event is left out."""
    booked = (
        ("profile of the baseline", [(p.cost_wall_s, p.cost_device_s) for p in view.profiles if p.label == "baseline"]),
        ("trials", [(e.trial.cost_wall_s, e.trial.cost_device_s) for e in view.trial_ends]),
        ("reward test", [(r.cost_wall_s, r.cost_device_s) for r in view.reward_tests]),
        ("waterfall", [(w.cost_wall_s, w.cost_device_s) for w in view.waterfalls]),
        (
            "confirmation",
            [(c.cost_wall_s, c.cost_device_s) for c in (*view.confirmations, *view.failed_confirmations)],
        ),
        ("profile of the tuned job", [(p.cost_wall_s, p.cost_device_s) for p in view.profiles if p.label == "tuned"]),
    )
    return tuple(
        StageCost(stage=stage, num_runs=len(runs), wall_s=sum(w for w, _ in runs), device_s=sum(d for _, d in runs))
        for stage, runs in booked
        if runs
    )


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
