"""Step time and device-seconds per step side by side: what the winner does to each, and what was forecast best for it.

The surprise: a gain in one may be a loss in the other. Sides that overlap hold both sides' devices, so a step of half
the length can cost as many device-seconds as before.
"""

from steptune.core.job import Objective
from steptune.core.objectives import ObjectiveForecast
from steptune.report.blocks import Cell, Table
from steptune.report.cells import column, muted, number, numbers, words
from steptune.report.numbers import main_text
from steptune.report.session_view import SessionView

TITLES = {Objective.STEP_TIME: "step time", Objective.DEVICE_SECONDS_PER_STEP: "device-seconds per step"}
"""Objectives as the table says them."""


def objectives(view: SessionView) -> list[Table]:
    """Return the table of both objectives; none where neither was confirmed nor forecast."""
    confirmed = view.decided_confirmation
    measured = {row.objective: row for row in (confirmed.objectives if confirmed else ())}
    forecast = {each.objective: each for each in (view.proposed.best if view.proposed else ())}
    if not measured and not forecast:
        return []
    whose = "handed back" if view.is_change_out else "candidate"
    rows: list[tuple[Cell, ...]] = []
    for objective in Objective:
        row = measured.get(objective)
        rows.append(
            (
                _name(view, objective),
                number(row.baseline if row else None, missing="not confirmed"),
                number(row.tuned if row else None, missing="not confirmed"),
                number(row.speedup if row else None, missing="not confirmed"),
                _best(forecast.get(objective)),
            )
        )
    return [
        Table(
            caption="Both objectives",
            columns=(
                column("objective"),
                numbers("baseline"),
                numbers(whose),
                numbers("gain"),
                column("forecast best for it", note="before any trial"),
            ),
            rows=tuple(rows),
        )
    ]


def _name(view: SessionView, objective: Objective) -> Cell:
    is_asked = view.started is not None and view.started.job.objective is objective
    return words(TITLES[objective], "what the job asks for" if is_asked else "")


def _best(forecast: ObjectiveForecast | None) -> Cell:
    if forecast is None:
        return muted("no change")
    step, devices = main_text(forecast.step_ratio), main_text(forecast.device_ratio)
    return words(str(forecast.change), f"{step} the step time, {devices} the device-seconds")
