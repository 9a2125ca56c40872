"""Turns a journal into a report. The table of contents is `CONTENTS`; its order is the reader's."""

import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from steptune.core.event import Event
from steptune.report.card import Body, Broken, Card, NotApplicable, Report, Shown
from steptune.report.cards import (
    bottlenecks,
    costs,
    decision,
    forecast_inputs,
    forecasts,
    guards,
    levers,
    limit_prices,
    noise,
    reward,
    timeline,
    trials,
    validity,
    waterfall,
)
from steptune.report.session_view import SessionView, view_session


class Entry(NamedTuple):
    """One line of the table of contents."""

    key: str
    title: str
    make: Callable[[SessionView], Shown | NotApplicable]


CONTENTS = (
    Entry("decision", "Decision", decision.card),
    Entry("timeline", "Where the step goes", timeline.card),
    Entry("waterfall", "What each lever brought", waterfall.card),
    Entry("forecasts", "Forecast against measured", forecasts.card),
    Entry("guards", "Guards", guards.card),
    Entry("bottlenecks", "Bottlenecks and their ceilings", bottlenecks.card),
    Entry("levers", "Baseline and best practice, lever by lever", levers.card),
    Entry("noise", "Noise floor and machine", noise.card),
    Entry("trials", "All trials", trials.card),
    Entry("reward", "Reward test", reward.card),
    Entry("limit_prices", "Price of each limit", limit_prices.card),
    Entry("validity", "Lengths, range and trip-wires", validity.card),
    Entry("costs", "Cost of tuning", costs.card),
    Entry("forecast_inputs", "What the forecasts were made from", forecast_inputs.card),
)
"""Every card, in reading order."""


def build_report(events: Sequence[Event], contents: Sequence[Entry] = CONTENTS) -> Report:
    """Return the report of the session that wrote ``events``; a card that crashes is kept as `Broken`."""
    view = view_session(events)
    return Report(
        job_name=view.started.job.name if view.started else None,
        steptune_version=view.started.steptune_version if view.started else None,
        cards=tuple(Card(key=entry.key, title=entry.title, body=_body(entry, view)) for entry in contents),
    )


def _body(entry: Entry, view: SessionView) -> Body:
    try:
        return entry.make(view)
    except Exception as error:  # noqa: BLE001 - the card edge: recorded in the report, the other cards go on
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(last.filename).name}:{last.lineno}"
        return Broken(error=f"{type(error).__name__}: {error}", where=where)
