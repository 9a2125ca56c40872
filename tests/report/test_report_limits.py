"""Limits: kept only where something says so."""

import math

from report_records import MISMATCH_FAIL, observation, started
from report_sessions import decision, full_session, reject_session

from steptune.core.event import Confirmed, Decided, Event
from steptune.core.trial import Observation
from steptune.core.verdict import Judgement
from steptune.report.limits_kept import LimitKept, limits_kept
from steptune.report.session_view import view_session


def limits_of(events: list[Event]) -> dict[str, LimitKept]:
    return {limit.limit: limit for limit in limits_kept(view_session(events))}


def with_steps(*steps: Observation) -> list[Event]:
    events = full_session()
    return [
        event.model_copy(update={"arms": tuple(arm.model_copy(update={"observations": steps}) for arm in event.arms)})
        if isinstance(event, Confirmed)
        else event
        for event in events
    ]


def test_limits_of_the_full_session() -> None:
    judged = {name: limit.judgement for name, limit in limits_of(full_session()).items()}
    assert judged == {
        "max_staleness": Judgement.PASS,
        "allow_corrections": Judgement.PASS,
        "allow_other_updates": Judgement.PASS,
        "max_mismatch_k3": Judgement.PASS,
        "memory_headroom_frac": Judgement.PASS,
        "reward_margin": Judgement.INCONCLUSIVE,
    }


def test_staleness_is_read_off_the_steps_not_off_the_configuration() -> None:
    events = full_session()
    events[0] = started(max_staleness=0)
    assert limits_of(events)["max_staleness"].judgement is Judgement.FAIL


def test_a_step_that_did_not_record_memory_leaves_the_limit_open() -> None:
    silent = observation(1).model_copy(update={"memory_peak_bytes": None})
    limit = limits_of(with_steps(observation(0), silent))["memory_headroom_frac"]
    assert limit.judgement is Judgement.INCONCLUSIVE
    assert "1 of 2 steps" in limit.how


def test_nan_mismatch_without_a_guard_is_not_kept() -> None:
    events = with_steps(observation(0, k3=math.nan))
    unguarded = decision().model_copy(update={"verdicts": ()})
    events = [Decided(decision=unguarded) if isinstance(event, Decided) else event for event in events]
    assert limits_of(events)["max_mismatch_k3"].judgement is Judgement.INCONCLUSIVE


def test_a_guard_that_fails_breaks_its_limit() -> None:
    failed = decision().model_copy(update={"verdicts": (MISMATCH_FAIL,)})
    events = [Decided(decision=failed) if isinstance(event, Decided) else event for event in full_session()]
    assert limits_of(events)["max_mismatch_k3"].judgement is Judgement.FAIL


def test_verdicts_on_a_rejected_candidate_do_not_judge_the_baseline_handed_back() -> None:
    limit = limits_of(reject_session())["max_mismatch_k3"]
    assert limit.judgement is Judgement.PASS
    assert limit.observed is not None
    assert limit.observed.n == 1  # the baseline arm's single step


def test_a_correction_the_owner_forbids_breaks_the_limit() -> None:
    settings = {**decision().settings, "correction": "tis"}
    corrected = decision().model_copy(update={"settings": settings})
    events = [Decided(decision=corrected) if isinstance(event, Decided) else event for event in full_session()]
    assert limits_of(events)["allow_corrections"].judgement is Judgement.FAIL


def test_no_limits_are_claimed_without_a_decision() -> None:
    assert limits_of(full_session()[:-2]) == {}
