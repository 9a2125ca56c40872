import pytest
from report_records import est
from report_sessions import full_session, reject_session

from steptune.core.event import Confirmed, Decided, Event, SessionStarted
from steptune.core.job import Objective
from steptune.core.objectives import ObjectiveGain
from steptune.report.blocks import Number, Words
from steptune.report.saving import expected_saving
from steptune.report.session_view import view_session


def saving(events: list[Event]) -> Number | Words:
    view = view_session(events)
    assert view.decision is not None
    cell = expected_saving(view, view.decision)
    assert isinstance(cell, Number | Words)
    return cell


def test_the_saving_of_a_thousand_steps_follows_from_the_baselines_step_and_the_confirmed_gain() -> None:
    cell = saving(full_session())
    assert isinstance(cell, Number)
    # 1000 x 1.04 s x (1 - 1/2.43), and at the interval's ends 2.34 and 2.52
    assert cell.estimate.value == pytest.approx(612.0, abs=0.1)
    assert (cell.estimate.low, cell.estimate.high) == (pytest.approx(595.6, abs=0.1), pytest.approx(627.3, abs=0.1))


def test_a_job_that_counts_devices_is_told_device_seconds() -> None:
    def counting(event: Event) -> Event:
        if isinstance(event, SessionStarted):
            job = event.job.model_copy(update={"objective": Objective.DEVICE_SECONDS_PER_STEP})
            return event.model_copy(update={"job": job})
        if isinstance(event, Confirmed):
            row = ObjectiveGain(
                objective=Objective.DEVICE_SECONDS_PER_STEP,
                baseline=est(2.0, unit="device-s"),
                tuned=est(1.0, unit="device-s"),
                speedup=est(2.0, unit="x"),
            )
            return event.model_copy(update={"objectives": (row,)})
        return event

    cell = saving([counting(event) for event in full_session()])
    assert isinstance(cell, Number)
    assert cell.estimate.unit == "device-s"
    assert cell.estimate.value == pytest.approx(1000 * 2.0 * (1 - 1 / 2.43))


def test_nothing_is_saved_where_the_baseline_is_handed_back_and_nothing_claimed_without_a_gain() -> None:
    assert saving(reject_session()) == Words(text="nothing is changed", tone=saving(reject_session()).tone)

    def unconfirmed(event: Event) -> Event:
        if not isinstance(event, Decided):
            return event
        return event.model_copy(update={"decision": event.decision.model_copy(update={"speedup": None})})

    cell = saving([unconfirmed(event) for event in full_session()])
    assert isinstance(cell, Words)
    assert cell.text == "not known"
