"""The bound and the buffer: nothing too old is trained on, nothing is lost, nobody waits for ever."""

from collections import deque
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from steptune.engine.ahead.bound import AgeBound
from steptune.engine.ahead.buffer import GroupBuffer


@dataclass(frozen=True, kw_only=True, slots=True)
class FakeGroup:
    number: int
    oldest_version: int
    num_tokens: int = 7


def bound(groups: int = 4, updates: int = 1, max_lag: int = 1) -> AgeBound:
    return AgeBound(groups_per_step=groups, updates_per_step=updates, max_lag=max_lag)


def test_a_bound_of_zero_lets_one_steps_groups_exist() -> None:
    assert bound(max_lag=0).capacity == 4
    assert bound(max_lag=0).may_begin(4, num_begun=4, num_gone=4)
    assert not bound(max_lag=0).may_begin(4, num_begun=4, num_gone=3)


def test_part_of_a_steps_updates_buys_no_room() -> None:
    # 2 updates a step: a group made one step ahead is 2 versions old when its turn comes
    assert bound(updates=2, max_lag=1).capacity == 4
    assert bound(updates=2, max_lag=2).capacity == 8


def test_a_group_that_would_break_the_bound_is_dropped_and_counted() -> None:
    buffer = GroupBuffer[FakeGroup](bound(groups=1))
    buffer.put([FakeGroup(number=0, oldest_version=0), FakeGroup(number=1, oldest_version=2)])
    assert buffer.drop_old(trainer_version=2) == 1
    assert [group.number for group in buffer.take()] == [1]
    stats = buffer.stats(lag_mean=0.0)
    assert stats.groups.model_dump() == {"generated": 2, "trained": 1, "dropped": 1, "buffered": 0}
    assert stats.tokens.is_conserved
    assert buffer.num_gone == 2


def test_a_group_that_is_early_waits_for_those_before_it() -> None:
    buffer = GroupBuffer[FakeGroup](bound(groups=2))
    buffer.put([FakeGroup(number=1, oldest_version=0), FakeGroup(number=3, oldest_version=0)])
    assert not buffer.is_enough
    assert buffer.stats(lag_mean=0.0).groups.model_dump() == {
        "generated": 2,
        "trained": 0,
        "dropped": 0,
        "buffered": 2,
    }
    buffer.put([FakeGroup(number=0, oldest_version=0)])
    assert [group.number for group in buffer.take()] == [0, 1]
    assert buffer.next_place == 2
    buffer.put([FakeGroup(number=2, oldest_version=0)])
    assert [group.number for group in buffer.take()] == [2, 3]


@given(
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(0, 7),
    st.lists(st.booleans(), max_size=40),
    st.lists(st.integers(0, 30), max_size=2),
)
def test_any_race_of_producer_and_trainer_keeps_the_bound_and_loses_nothing(
    groups: int, updates: int, max_lag: int, turns: list[bool], jumps: list[int]
) -> None:
    """``turns``: who is faster now; ``jumps``: turns at which the trainer's version jumps, so that groups grow old."""
    rule = bound(groups, updates, max_lag)
    buffer = GroupBuffer[FakeGroup](rule)
    version = num_begun = told_gone = told_version = num_steps = 0
    in_flight: deque[FakeGroup] = deque()
    for turn, is_producers in enumerate(turns):
        may_begin = rule.may_begin(groups, num_begun=num_begun, num_gone=told_gone)
        if is_producers and may_begin:
            in_flight.extend(FakeGroup(number=num_begun + i, oldest_version=told_version) for i in range(groups))
            num_begun += groups
        elif not is_producers:
            if turn in jumps:
                version += 1 + max_lag
                told_version = version
            buffer.put(in_flight)
            in_flight.clear()
            if buffer.drop_old(version):
                told_gone = buffer.num_gone
            if buffer.is_enough:
                taken = buffer.take()
                assert all(version - group.oldest_version <= max_lag for group in taken)
                version += updates
                told_gone, told_version = buffer.num_gone, version
                num_steps += 1
            else:
                # never does the trainer starve while the producer may not begin
                assert rule.may_begin(groups, num_begun=num_begun, num_gone=told_gone)
        assert len(buffer.waiting) + len(in_flight) <= rule.capacity
        stats = buffer.stats(lag_mean=0.0)
        assert stats.groups.is_conserved
        assert stats.tokens.is_conserved
        assert stats.groups.trained == num_steps * groups
    if not jumps:
        # a producer that keeps to the bound makes nothing in vain
        assert buffer.num_groups["dropped"] == 0
