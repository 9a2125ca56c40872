"""The duty cycle's book-keeping, with a process and a clock made of numbers."""

import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steptune.engine.quota.bucket import PERIOD_S, Bucket
from steptune.engine.quota.duty import control


class Machine:
    """A process that uses `num_threads` cores while it runs, and a clock that only sleeping moves."""

    def __init__(self, num_threads: int, *, seconds: float, idle_until_s: float = 0.0) -> None:
        self.num_threads, self.seconds, self.idle_until_s = num_threads, seconds, idle_until_s
        self.now_s = self.used_s = 0.0
        self.is_running = True
        self.signals: list[int] = []
        self.longest_burst_s = self.burst_s = 0.0

    def cpu_s(self) -> float:
        if self.now_s >= self.seconds:
            raise ProcessLookupError
        return self.used_s

    def signal(self, number: int) -> None:
        self.signals.append(number)
        self.is_running = number == signal.SIGCONT
        self.burst_s = 0.0

    def clock(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        if self.is_running and self.now_s > self.idle_until_s:
            self.used_s += seconds * self.num_threads
            self.burst_s += seconds
            self.longest_burst_s = max(self.longest_burst_s, self.burst_s)


def run(machine: Machine, cores: float) -> Machine:
    control(machine, cores=cores, num_threads=machine.num_threads, clock=machine.clock, sleep=machine.sleep)
    return machine


@given(num_threads=st.integers(1, 4), frac=st.floats(0.05, 0.95))
def test_a_busy_process_gets_its_share_of_the_cores(num_threads: int, frac: float) -> None:
    cores = frac * num_threads
    machine = run(Machine(num_threads, seconds=4.0), cores)
    assert machine.used_s / 4.0 == pytest.approx(cores, rel=0.05)


def test_a_share_of_all_its_threads_never_stops_it() -> None:
    assert run(Machine(1, seconds=2.0), 1.0).signals == []


def test_stop_and_resume_alternate_and_it_is_never_resumed_first() -> None:
    signals = run(Machine(1, seconds=1.0), 0.3).signals
    assert signals[0::2] == [signal.SIGSTOP] * len(signals[0::2])
    assert signals[1::2] == [signal.SIGCONT] * len(signals[1::2])
    assert len(signals) > 20


def test_time_not_used_is_not_saved_up() -> None:
    # idle for a second at 0.5 cores: the burst that follows is one period's worth, 10 ms, not half a second
    machine = run(Machine(1, seconds=1.2, idle_until_s=1.0), 0.5)
    assert machine.longest_burst_s < 3 * PERIOD_S


def test_a_waiting_process_is_never_stopped() -> None:
    assert run(Machine(1, seconds=1.0, idle_until_s=9.0), 0.1).signals == []


@given(cores=st.floats(0.05, 4), steps=st.lists(st.tuples(st.floats(0, 0.1), st.floats(0, 0.4)), max_size=20))
def test_credit_never_exceeds_one_periods_worth_and_a_look_is_never_put_off_for_ever(
    cores: float, steps: list[tuple[float, float]]
) -> None:
    bucket = Bucket(cores=cores, num_threads=4, wall_s=0.0, cpu_s=0.0)
    wall_s = cpu_s = 0.0
    for more_wall_s, more_cpu_s in steps:
        wall_s, cpu_s = wall_s + more_wall_s, cpu_s + more_cpu_s
        wait_s = bucket.look(wall_s, cpu_s)
        assert bucket.credit_s <= cores * PERIOD_S + 1e-12
        assert 0 < wait_s < 1e3


def test_a_stopped_process_goes_on_at_half_a_periods_worth_and_not_before() -> None:
    bucket = Bucket(cores=1.0, num_threads=1, wall_s=0.0, cpu_s=0.0)
    bucket.look(0.001, 0.002)
    assert bucket.is_stopped
    bucket.look(0.001 + 0.6 * PERIOD_S / 2, 0.002)
    assert bucket.is_stopped, "some credit, but not half a period's"
    bucket.look(0.002 + PERIOD_S / 2, 0.002)
    assert not bucket.is_stopped


def test_the_next_look_is_before_all_threads_together_can_use_up_the_credit() -> None:
    waits = [Bucket(cores=1.0, num_threads=n, wall_s=0.0, cpu_s=0.0).look(PERIOD_S, 0.0) for n in (1, 2, 4)]
    assert waits == pytest.approx([PERIOD_S, PERIOD_S / 2, PERIOD_S / 4])
