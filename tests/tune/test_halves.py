"""Before a change of both sides is launched, its halves are replayed beside rivals', and the choice is made again."""

from dataclasses import replace
from pathlib import Path

import pytest
from fake_sessions import Ran, SteppingClock, job_of, quiet

from steptune.core.event import Forecasted, HalfReplayed, TrialStarted
from steptune.core.phase import Role
from steptune.forecast.parts import PartSeconds
from steptune.store.journal import read_journal
from steptune.testing.fake_framework import FakeFramework
from steptune.testing.fake_space import COMPACTION, PACKING, FakeKnob
from steptune.tune import halves as halves_of_changes
from steptune.tune.halves import expected_gain
from steptune.tune.search_state import died_alone
from steptune.tune.session import TuneOptions, resume_session, start_session
from steptune.tune.verify import verify_events

BOTH = frozenset({Role.TRAINER, Role.ROLLOUT})
WAVES = FakeKnob(name="waves", side=Role.ROLLOUT, factors={1: 1.0, 2: 0.8, 3: 0.6}, believed={1: 1.0, 2: 0.55, 3: 0.6})
"""Believed best at 2, and a little less good at 3, which it is."""
DIES = FakeKnob(
    name="kernel",
    side=Role.TRAINER,
    factors={"a": 1.0, "b": 0.9},
    believed={"a": 1.0, "b": 0.9},
    fails_with={"b": "oom"},
)
CLEAR = (COMPACTION, PACKING)
"""Nobody doubts that both together are best."""


@pytest.fixture(autouse=True)
def dear_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start-ups are counted by the real clock, so that a fake launch costs nothing and a replay is dear beside it."""
    monkeypatch.setattr(halves_of_changes, "MOST_OF_TRIAL", 100.0)


def framework_of(*knobs: FakeKnob, sides: frozenset[Role] = BOTH, keeps_worker: bool = True) -> FakeFramework:
    return FakeFramework(knob_table=knobs, sides=sides, start_up_s=20.0, keeps_worker=keeps_worker)


def session(root: Path, framework: FakeFramework) -> Ran:
    return Ran(start_session(job_of(), framework, TuneOptions(root=root), SteppingClock(), quiet), framework)


def halves(ran: Ran) -> list[HalfReplayed]:
    return [event for event in ran.events if isinstance(event, HalfReplayed)]


def test_the_half_that_is_faster_than_it_was_forecast_is_launched_in_the_others_place(tmp_path: Path) -> None:
    ran = session(tmp_path / "with", framework_of(WAVES, PACKING))
    assert ran.moves_tried()[0] == {"waves": 3, "layout": "packed"}
    assert {"waves": 2, "layout": "packed"} not in ran.moves_tried()
    assert ran.decision.settings == {"waves": 3, "layout": "packed"}
    without = session(tmp_path / "without", framework_of(WAVES, PACKING, sides=frozenset()))
    assert without.moves_tried()[0] == {"waves": 2, "layout": "packed"}
    assert ran.problems() == []


def test_a_half_stands_before_its_trial_and_adopts_nothing(tmp_path: Path) -> None:
    ran = session(tmp_path, framework_of(WAVES, PACKING))
    half = halves(ran)[0]
    assert (half.side, half.knobs, half.side_knobs) == (Role.ROLLOUT, ("waves",), ("waves",))
    started = next(place for place, event in enumerate(ran.events) if isinstance(event, TrialStarted))
    assert ran.events.index(half) < started
    assert half.beside_ratio == pytest.approx(0.55)
    assert half.ratio is not None
    assert half.ratio.value == pytest.approx(0.55 * 0.6 / 0.8, rel=0.05)
    assert ran.trials[0].trial.arms  # whole steps have decided


def test_the_forecast_of_the_trial_knows_what_its_half_has_taught(tmp_path: Path) -> None:
    ran = session(tmp_path, framework_of(WAVES, PACKING))
    first, latest = (e.forecast.ratio.value for e in ran.events if isinstance(e, Forecasted) and e.purpose == "trial")
    # 0.6 x 0.6 + 0.4 x 0.5 = 0.56, and taught that it is faster beside a rival that is believed to take 0.55
    assert first == pytest.approx(0.56, rel=0.02)
    assert 0.6 * 0.41 + 0.2 < latest < 0.5


@pytest.mark.parametrize(
    "framework",
    [
        framework_of(WAVES, PACKING, sides=frozenset()),
        framework_of(WAVES, PACKING, keeps_worker=False),
        framework_of(WAVES, PACKING, sides=frozenset({Role.TRAINER})),
        framework_of(WAVES),
        framework_of(*CLEAR),
    ],
    ids=["no replays", "a replay would cost a start-up", "not that side", "one side is touched", "no rival is near"],
)
def test_nothing_is_replayed_half_by_half_where(framework: FakeFramework, tmp_path: Path) -> None:
    assert halves(session(tmp_path, framework)) == []


def test_nothing_is_replayed_where_that_is_dear_beside_the_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(halves_of_changes, "MOST_OF_TRIAL", 0.5)
    assert halves(session(tmp_path, framework_of(WAVES, PACKING))) == []


def test_a_replay_that_dies_accuses_the_moves_of_its_side_and_the_launch_goes_without(tmp_path: Path) -> None:
    ran = session(tmp_path, framework_of(DIES, PACKING, COMPACTION))
    dead = halves(ran)[0]
    assert dead.problem.startswith("MemoryError")
    assert dead.ratio is None
    assert ran.moves_tried()[0] == {"layout": "packed", "compact_finished": True}
    assert ran.decision.settings["layout"] == "packed"
    assert ran.problems() == []


def test_accused_are_only_several_moves_that_nothing_ran_with(tmp_path: Path) -> None:
    ran = session(tmp_path, framework_of(DIES, PACKING, COMPACTION))
    dead = halves(ran)[0]
    before = replace(ran.state, ended=(), halves=(dead,))
    assert died_alone(before) == (frozenset({("kernel", "b"), ("layout", "packed")}),)
    assert died_alone(ran.state) == ()  # packing has run since; one move alone is for a launch to try


def test_a_tampered_half_is_found(tmp_path: Path) -> None:
    framework = framework_of(WAVES, PACKING)
    events = list(session(tmp_path, framework).events)
    half = next(event for event in events if isinstance(event, HalfReplayed))
    assert half.ratio is not None
    events[events.index(half)] = half.model_copy(update={"ratio": half.ratio.model_copy(update={"value": 0.1})})
    problems = verify_events(events, framework.knobs(job_of()))
    assert any("half does not follow from its times" in problem for problem in problems)


def test_a_resumed_session_replays_no_half_twice(tmp_path: Path) -> None:
    framework, at_replay = framework_of(WAVES, PACKING), list[int]()

    def die_at_the_launch_after_a_replay() -> None:
        if framework.spent_on.get("replay", 0.0) > 0:
            at_replay.append(framework.launches)
            if framework.launches > at_replay[0]:
                raise KeyboardInterrupt

    framework.on_step = die_at_the_launch_after_a_replay
    with pytest.raises(KeyboardInterrupt):
        start_session(job_of(), framework, TuneOptions(root=tmp_path / "runs"), SteppingClock(), quiet)
    (folder,) = (tmp_path / "runs").iterdir()
    before = [e.body for e in read_journal(folder / "journal.jsonl") if isinstance(e.body, HalfReplayed)]
    assert before
    framework.on_step = lambda: None
    resume_session(folder, framework, TuneOptions(root=tmp_path / "runs"), SteppingClock(), quiet)
    assert halves(Ran(folder, framework)) == before


def test_the_gain_of_knowing_is_that_of_the_step() -> None:
    half = PartSeconds(schedule="sync", rollout=0.3, train=0.3)
    # 0.09 of half the step, and 0.4 of it: E[max(0, x)] of a standard normal x
    assert expected_gain(half, half, Role.TRAINER, 1) == pytest.approx(0.09 / 2 * 0.399, rel=0.05)
    assert expected_gain(half, half, Role.TRAINER, 4) == pytest.approx(0.18 / 2 * 0.399, rel=0.1)
    slower = PartSeconds(schedule="sync", rollout=0.3, train=0.5)
    assert expected_gain(half, slower, Role.TRAINER, 1) < 1e-6
    overlapped = PartSeconds(schedule="one_step_off", rollout=0.6, train=0.1)
    assert expected_gain(overlapped, overlapped, Role.TRAINER, 1) < 0.001
