from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from steptune.core.event import Diagnosed, SessionResumed
from steptune.core.job import BudgetSpec
from steptune.store.journal_lines import Entry, chained
from steptune.tune.budget import Budget, worked_s


class FakeClock:
    """Tells what it is told to tell."""

    def __init__(self) -> None:
        self.now = 50.0

    def __call__(self) -> float:
        return self.now


def budget(clock: FakeClock, *, device_s: float = 1000.0, wall_s: float = 560.0, before_s: float = 0.0) -> Budget:
    spec = BudgetSpec(max_trials=3, device_time_s=device_s, wall_time_s=wall_s)
    return Budget(spec=spec, num_cores=2, clock=clock, spent_before_s=before_s)


def test_wall_time_counts_from_the_start() -> None:
    clock = FakeClock()
    made = budget(clock, device_s=1e9)
    clock.now += 100
    assert made.spent_wall_s() == 100
    assert made.wall_left_s() == 460


def test_the_device_budget_binds_where_it_is_the_smaller() -> None:
    clock = FakeClock()
    made = budget(clock, device_s=300.0)
    clock.now += 100
    # 300 core-seconds less 2 cores x 100 s are 100 core-seconds: 50 s on both cores
    assert made.spent_device_s() == 200
    assert made.wall_left_s() == 50


def test_what_an_earlier_process_spent_is_spent() -> None:
    clock = FakeClock()
    made = budget(clock, device_s=1e9, before_s=500.0)
    clock.now += 100
    assert made.wall_left_s() == -40


def test_trials_run_out_and_never_go_below_none() -> None:
    made = budget(FakeClock())
    assert made.trials_left() == 3
    made.num_trials = 5
    assert made.trials_left() == 0


@given(st.floats(0, 1e4), st.floats(0, 1e4), st.floats(1, 1e4), st.floats(1, 1e4))
def test_time_only_ever_takes_away(first: float, second: float, device_s: float, wall_s: float) -> None:
    clock = FakeClock()
    made = budget(clock, device_s=device_s, wall_s=wall_s)
    clock.now += first
    before = made.wall_left_s()
    clock.now += second
    assert made.wall_left_s() <= before
    assert made.wall_left_s() <= wall_s


def entries(*steps: tuple[float, bool]) -> list[Entry]:
    """One line after each (seconds since the line before, whether a resumed process wrote it)."""
    now, made = datetime(2025, 11, 2, 8, 0, 0, tzinfo=UTC), list[Entry]()
    for passed_s, is_resume in steps:
        now += timedelta(seconds=passed_s)
        event = SessionResumed(code_hash="c", abandoned_trials=()) if is_resume else Diagnosed(bottlenecks=())
        made.append(chained(len(made) + 1, now.isoformat(timespec="milliseconds"), "", event, Entry))
    return made


def test_time_between_a_kill_and_its_resume_was_not_worked() -> None:
    # 10 s of work, an hour dead, 5 s of work
    assert worked_s(entries((0, False), (10, False), (3600, True), (5, False))) == 15


def test_nothing_is_worked_in_no_lines_or_in_one() -> None:
    assert worked_s([]) == 0
    assert worked_s(entries((7, False))) == 0


def test_a_clock_set_back_takes_nothing_away() -> None:
    assert worked_s(entries((0, False), (10, False), (-500, False), (20, False))) == 30


def test_what_is_kept_for_later_stages_is_not_the_running_ones() -> None:
    clock = FakeClock()
    made = budget(clock, device_s=1e9)
    clock.now += 100
    with made.keeping(300):
        assert made.stage_left_s() == 160
        with made.keeping(50):
            assert made.stage_left_s() == 410
        assert made.stage_left_s() == 160
        assert made.wall_left_s() == 460
    assert made.stage_left_s() == 460
