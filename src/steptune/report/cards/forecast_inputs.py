"""What the forecasts were made from: the profile, its cost curves, and how much was fitted."""

from steptune.core.event import Forecasted
from steptune.core.profile import CostCurve
from steptune.report.blocks import Block, Cell, Table
from steptune.report.card import NotApplicable, Shown
from steptune.report.cells import column, muted, number, numbers, words
from steptune.report.numbers import count_text, derived, knob_text, measured
from steptune.report.session_view import SessionView


def card(view: SessionView) -> Shown | NotApplicable:
    """Show the inputs of every forecast and the curves they share."""
    curves = view.baseline.profile.costs if view.baseline else ()
    if not view.forecasts and not curves:
        return NotApplicable(why="no forecast was written and no cost was probed")
    blocks: list[Block] = []
    if view.forecasts:
        heads = (
            column("written for"),
            column("kind"),
            column("profile"),
            numbers("free parameters", "fitted on this job"),
            column("trials it learnt from"),
            numbers("lag", "updates, at most"),
            column("memory fits?"),
        )
        rows = tuple(_inputs(event) for event in view.forecasts)
        blocks.append(Table(caption="Inputs of each forecast", columns=heads, rows=rows))
    if curves:
        heads = (column("primitive"), column("measured under"), column("unit"), numbers("points"), *_ENDS)
        blocks.append(Table(caption="Cost curves probed", columns=heads, rows=tuple(_curve(curve) for curve in curves)))
    return Shown(takeaway=_takeaway(view, len(curves)), blocks=tuple(blocks))


_ENDS = (numbers("smallest size"), numbers("its time"), numbers("largest size"), numbers("its time"))


def _takeaway(view: SessionView, num_curves: int) -> str:
    given = [event.forecast for event in view.forecasts if event.forecast.refused is None]
    probed = f"{count_text(num_curves, 'cost curve')} probed on this machine"
    if not given:
        return f"{probed}; no forecast gave a number"
    most = max(forecast.num_free_parameters for forecast in given)
    return f"{probed}; at most {count_text(most, 'free parameter')} in a forecast"


def _inputs(event: Forecasted) -> tuple[Cell, ...]:
    forecast = event.forecast
    target = "trial" if event.purpose == "trial" else "waterfall row"
    head = (words(f"{target} {event.trial_number}"), words("first" if event.is_first else "later"))
    if forecast.refused is not None:
        return (*head, words(forecast.profile_hash), *([muted("refused")] * 3), words(forecast.refused))
    fits = {True: "yes", False: "no", None: "too close to call"}[forecast.memory_fits]
    return (
        *head,
        words(forecast.profile_hash),
        words(str(forecast.num_free_parameters)),
        words(", ".join(forecast.trials_used) or "none"),
        words(str(forecast.lag)),
        words(fits),
    )


def _curve(curve: CostCurve) -> tuple[Cell, ...]:
    under = ", ".join(f"{name}={knob_text(value)}" for name, value in sorted(curve.when.items()))
    head = (words(curve.name), words(under or "any settings"), words(curve.unit), words(str(len(curve.points))))
    if not curve.points:
        return (*head, *([muted("none")] * 4))
    first, last = curve.points[0], curve.points[-1]
    return (
        *head,
        number(derived(first.x, "1")),
        number(measured(first.seconds, "s")),
        number(derived(last.x, "1")),
        number(measured(last.seconds, "s")),
    )
