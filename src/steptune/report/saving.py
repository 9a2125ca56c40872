"""What the change is expected to save: the other side of what finding it has cost.

A job does not say how long it will run, so the saving is stated per thousand steps of it, and beside it the step at
which tuning has paid for itself.
"""

from steptune.core.decision import Decision
from steptune.core.estimate import Estimate, Source
from steptune.core.job import Objective
from steptune.report.blocks import Cell
from steptune.report.cells import muted, number
from steptune.report.session_view import SessionView

NUM_STEPS = 1000
"""Steps that a saving is stated for: a run of a day at a minute and a half a step."""


def expected_saving(view: SessionView, decision: Decision) -> Cell:
    """Return the time saved in `NUM_STEPS` steps, in the job's objective, with the confirmed gain's interval."""
    if not view.is_change_out:
        return muted("nothing is changed")
    step, speedup = _baseline_step(view), decision.speedup
    if step is None or speedup is None or not speedup.value > 0:
        return muted("not known")
    value, low, high = (_saved(step, x) for x in (speedup.value, speedup.low, speedup.high))
    note = f"in {NUM_STEPS:,} steps at the tested lengths"
    return number(
        Estimate(value=value or 0.0, low=low, high=high, unit=step.unit, source=Source.DERIVED, n=speedup.n, note=note)
    )


def _saved(step: Estimate, speedup: float | None) -> float | None:
    return None if speedup is None or not speedup > 0 else NUM_STEPS * step.value * (1.0 - 1.0 / speedup)


def _baseline_step(view: SessionView) -> Estimate | None:
    """Return the baseline's step in the job's objective: from the profile, or as the confirmation counted devices."""
    asked = view.started.job.objective if view.started else Objective.STEP_TIME
    if asked is Objective.STEP_TIME:
        return view.baseline.profile.step_time if view.baseline else None
    rows = view.decided_confirmation.objectives if view.decided_confirmation else ()
    return next((row.baseline for row in rows if row.objective is asked), None)
