"""One replica by itself, on a clock of events."""

from virtual_cases import FLAT, group

from steptune.core.phase import SpanKind
from steptune.engine.virtual.book import Book
from steptune.engine.virtual.event_queue import EventQueue
from steptune.engine.virtual.replica import Replica, World
from steptune.engine.virtual.spec import ClusterSpec
from steptune.engine.virtual.tools import ToolWorkers
from steptune.engine.virtual.work import Group


def test_two_updates_within_one_iteration_pause_twice_and_the_later_weights_count() -> None:
    events, book = EventQueue(), Book()
    world = World(
        spec=ClusterSpec(num_trainers=1, num_replicas=1),
        costs=FLAT,
        events=events,
        book=book,
        tools=ToolWorkers(1, events, book),
        max_completion=4,
        on_done=lambda _group: None,
    )
    replica = Replica(0, world)
    replica.submit(Group(index=0, work=group(4), num_left=1))
    events.after(0.5, lambda: replica.update(1, 2.0))
    events.after(0.7, lambda: replica.update(2, 3.0))
    events.run(lambda: False)
    seconds = book.within(replica.device, 0.0, events.now_s)
    assert seconds["weight_sync", SpanKind.BUSY] == 5.0
    assert seconds["rollout", SpanKind.BUSY] == 4.0
    assert replica.version == 2
