"""`report --verify` against forgeries: journals whose hash chain is whole, but whose content does not follow."""

from collections.abc import Callable
from pathlib import Path

import pytest
from fake_sessions import Ran, SteppingClock, run_session

from steptune.core.decision import Outcome
from steptune.core.event import Confirmed, Decided, Event, Forecasted, Profiled, RewardTested, TrialEnded
from steptune.core.verdict import Judgement, Verdict
from steptune.store.journal import Journal, create_journal
from steptune.store.journal_lines import Entry
from steptune.store.run_folder import RunFolder
from steptune.testing.fake_space import (
    COMPACTION,
    HALVED_GRADIENT,
    LAZY_ANSWERS,
    LEAKY_DTYPE,
    PACKING,
    PLACEBO,
    SHORT_ANSWERS,
)
from steptune.tune.verify import verify

KNOBS = (PACKING, COMPACTION, PLACEBO)


@pytest.fixture
def ran(tmp_path: Path) -> Ran:
    return run_session(tmp_path / "runs", KNOBS)


def forged(ran: Ran, forge: Callable[[list[Event]], list[Event]]) -> list[str]:
    """Write the journal again, its chain whole, after ``forge`` has had its way; return what `verify` says."""
    events = forge(ran.events)
    for name in ("journal.jsonl", "journal-head.json"):
        (ran.path / name).unlink()
    create_journal(ran.path / "journal.jsonl")
    made = Journal(ran.path / "journal.jsonl", SteppingClock(), Entry, [], 0)
    for event in events:
        made.append(event)
    return ran.problems()


def first(kind: type[Event], events: list[Event]) -> int:
    return next(i for i, event in enumerate(events) if isinstance(event, kind))


def change_first(kind: type[Event], change: Callable[[Event], Event]) -> Callable[[list[Event]], list[Event]]:
    def forge(events: list[Event]) -> list[Event]:
        at = first(kind, events)
        return [*events[:at], change(events[at]), *events[at + 1 :]]

    return forge


def test_the_same_events_written_again_are_believed(ran: Ran) -> None:
    assert forged(ran, lambda events: events) == []


def test_a_decision_that_does_not_follow_is_found(ran: Ran) -> None:
    def brag(event: Event) -> Event:
        assert isinstance(event, Decided)
        return event.model_copy(update={"decision": event.decision.model_copy(update={"reasons": ("trust me",)})})

    (problem,) = forged(ran, change_first(Decided, brag))
    assert "the decision does not follow from the journal before it" in problem


def test_a_confirmation_made_faster_is_found_by_the_decision(ran: Ran) -> None:
    def brag(event: Event) -> Event:
        assert isinstance(event, Confirmed)
        faster = event.speedup.model_copy(update={"value": 9.0, "low": 8.0, "high": 10.0})
        return event.model_copy(update={"speedup": faster})

    problems = forged(ran, change_first(Confirmed, brag))
    assert any("the decision does not follow" in problem for problem in problems)
    assert any("the confirmed gain does not follow from its launches" in problem for problem in problems)


def passed(verdicts: tuple[Verdict, ...]) -> tuple[Verdict, ...]:
    return tuple(verdict.model_copy(update={"judgement": Judgement.PASS}) for verdict in verdicts)


def test_guards_that_a_forger_lets_pass_are_asked_again_over_the_steps(tmp_path: Path) -> None:
    ran = run_session(tmp_path, (PACKING, SHORT_ANSWERS, LEAKY_DTYPE))
    assert ran.problems() == []

    def kind(event: Event) -> Event:
        assert isinstance(event, TrialEnded | Confirmed)
        return event.model_copy(update={"verdicts": passed(event.verdicts)})

    assert any("verdicts on trial 1 do not follow" in each for each in forged(ran, change_first(TrialEnded, kind)))
    assert any("on the confirmation do not follow" in each for each in forged(ran, change_first(Confirmed, kind)))


def test_a_verdict_on_replayed_updates_is_drawn_again_from_the_replay(tmp_path: Path) -> None:
    ran = run_session(tmp_path, (HALVED_GRADIENT,))
    assert ran.problems() == []

    def kind(event: Event) -> Event:
        assert isinstance(event, TrialEnded)
        return event.model_copy(update={"verdicts": passed(event.verdicts)})

    def near(event: Event) -> Event:
        assert isinstance(event, TrialEnded)
        assert event.replayed is not None
        return event.model_copy(update={"replayed": event.replayed.model_copy(update={"distance_by_tensor": {}})})

    def gone(event: Event) -> Event:
        return event.model_copy(update={"replayed": None})

    said = "the verdict on the updates of trial 1 does not follow from their replay"
    assert any(said in each for each in forged(ran, change_first(TrialEnded, kind)))
    assert any(said in each for each in forged(ran, change_first(TrialEnded, near)))
    said = "trial 1 has a verdict on updates that were not replayed"
    assert any(said in each for each in forged(ran, change_first(TrialEnded, gone)))


def test_a_journal_of_other_code_without_replays_is_believed_in_them(ran: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    def old(events: list[Event]) -> list[Event]:
        return [e.model_copy(update={"replayed": None}) if isinstance(e, TrialEnded) else e for e in events]

    monkeypatch.setattr("steptune.tune.verify.code_hash", lambda: "another")
    (problem,) = forged(ran, old)
    assert "the run was made by other code than is installed here" in problem


def test_a_confirmation_whose_slow_steps_are_gone_is_found(ran: Ran) -> None:
    def faster(event: Event) -> Event:
        assert isinstance(event, Confirmed)
        steps = tuple(
            step.model_copy(update={"step_time_s": 0.5 * step.step_time_s}) for step in event.arms[-1].observations
        )
        arms = (*event.arms[:-1], event.arms[-1].model_copy(update={"observations": steps}))
        return event.model_copy(update={"arms": arms})

    assert any("does not follow from its launches" in each for each in forged(ran, change_first(Confirmed, faster)))


def test_a_reward_test_that_a_forger_lets_pass_is_judged_again(tmp_path: Path) -> None:
    ran = run_session(tmp_path, (PACKING, LAZY_ANSWERS))

    def kind(event: Event) -> Event:
        assert isinstance(event, RewardTested)
        return event.model_copy(update={"verdicts": passed(event.verdicts)})

    def skipped(event: Event) -> Event:
        assert isinstance(event, RewardTested)
        return event.model_copy(update={"start_S": ()})

    said = "the verdicts on the training runs do not follow from them"
    assert any(said in each for each in forged(ran, change_first(RewardTested, kind)))
    assert any(said in each for each in forged(ran, change_first(RewardTested, skipped)))


def test_a_forecast_written_after_the_fact_is_found(ran: Ran) -> None:
    def prophesy(event: Event) -> Event:
        assert isinstance(event, Forecasted)
        hit = event.forecast.model_copy(update={"ratio": event.forecast.ratio.model_copy(update={"value": 0.56})})
        return event.model_copy(update={"forecast": hit})

    assert any(
        "the forecast cannot be recomputed" in problem for problem in forged(ran, change_first(Forecasted, prophesy))
    )


def test_a_forecast_moved_behind_its_trial_is_found(ran: Ran) -> None:
    def late(events: list[Event]) -> list[Event]:
        at, end = first(Forecasted, events), first(TrialEnded, events)
        return [*events[:at], *events[at + 1 : end + 1], events[at], *events[end + 1 :]]

    assert any("of the journal cannot stand where it does" in problem for problem in forged(ran, late))


def test_a_forecast_that_learnt_from_the_future_is_found(ran: Ran) -> None:
    history = next(e.history for e in ran.events if isinstance(e, Forecasted) and e.history)

    def clairvoyant(event: Event) -> Event:
        return event.model_copy(update={"history": history, "is_first": False})

    problems = forged(ran, change_first(Forecasted, clairvoyant))
    assert any("cannot be recomputed" in problem or "was not measured" in problem for problem in problems)


def test_a_trial_whose_outcome_does_not_follow_is_found(ran: Ran) -> None:
    def lie(event: Event) -> Event:
        return event.model_copy(update={"outcome": Outcome.REJECT})

    assert any("the outcome of trial 1 does not follow" in p for p in forged(ran, change_first(TrialEnded, lie)))


def test_a_profile_made_slower_is_found_by_every_forecast(ran: Ran) -> None:
    def slow(event: Event) -> Event:
        assert isinstance(event, Profiled)
        step = event.profile.step_time.model_copy(update={"value": 2.0, "low": 1.9, "high": 2.1})
        return event.model_copy(update={"profile": event.profile.model_copy(update={"step_time": step})})

    problems = forged(ran, change_first(Profiled, slow))
    assert sum("made from another profile" in problem for problem in problems) >= 2


def test_another_code_is_said_to_be_another_code_and_no_forgery(ran: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steptune.tune.verify.code_hash", lambda: "another")
    (problem,) = ran.problems()
    assert "the run was made by other code than is installed here" in problem


def test_a_journal_that_cannot_be_read_is_the_only_problem(ran: Ran) -> None:
    (ran.path / "journal.jsonl").write_text("{}\n")
    (problem,) = verify(RunFolder.open(ran.path), ran.framework.knobs(RunFolder.open(ran.path).job()))
    assert "of the journal" in problem


@pytest.mark.parametrize("trap", [LAZY_ANSWERS, LEAKY_DTYPE], ids=lambda knob: knob.name)
def test_a_session_with_bans_and_several_waterfalls_verifies(trap: object, tmp_path: Path) -> None:
    assert run_session(tmp_path, (PACKING, COMPACTION, trap)).problems() == []  # type: ignore[arg-type]
