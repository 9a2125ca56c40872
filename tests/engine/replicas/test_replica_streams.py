"""An asynchronous rollout of several replicas, all in the test's own process: the bound, the books, the losses."""

import itertools
import sys
from collections.abc import Callable
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from steptune.core.errors import TrialError
from steptune.core.job import JobSpec
from steptune.core.profile import SampledLengths
from steptune.core.trial import Observation
from steptune.core.verdict import Judgement
from steptune.engine.ahead.bound import AgeBound
from steptune.engine.ahead.deal import Dealer
from steptune.engine.ahead.messages import Paused
from steptune.engine.ahead.wires import ProcessWires
from steptune.engine.loop import Loop
from steptune.engine.patience import PATIENCE_FACTOR
from steptune.engine.pipes import send_plain
from steptune.engine.wire_end import WireEnd
from steptune.guard.weights_arrived import check_weights_arrived

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "ahead"))
from inline_wire import inline_source, wire_of
from loop_cases import small_job, small_loop

BOUND = AgeBound(groups_per_step=4, updates_per_step=1, max_lag=1)


def job_of(max_staleness: int) -> JobSpec:
    job = small_job(lr=1e-2, overlong_buffer_len=11)
    limits = job.limits.model_copy(update={"max_staleness": max_staleness})
    devices = job.devices.model_copy(update={"num_cores": 4})
    return job.model_copy(update={"limits": limits, "devices": devices})


def stream_loop(folder: Path, max_lag: int, eager: Callable[[], bool] = lambda: True, **how: Any) -> Loop:
    plain = {"compact_finished": True, "schedule": "async", "max_lag": max_lag, "correction": "tis"}
    source = {"make_source": lambda state: inline_source(state, eager)}
    return small_loop(job_of(max_lag), folder, **{**plain, **source, **how})


def steps_of(loop: Loop, num_steps: int) -> list[Observation]:
    steps = [loop.step() for _ in range(num_steps)]
    loop.close()
    return steps


def dealt(rule: Any, sizes: list[float], gone_and_heard: list[tuple[int, list[int]]]) -> list[list[list[int]]]:
    """Return what each of two replicas is told at every standing."""
    dealer = Dealer(BOUND, num_replicas=2, rule=rule, size_of=lambda place: sizes[place])
    told = []
    for num_gone, heard in gone_and_heard:
        dealer.hear(heard)
        dealer.deal(num_gone, ())
        told.append([list(dealer.take(replica)) for replica in range(2)])
    return told


def test_places_are_handed_out_as_far_as_the_bound_and_no_place_twice() -> None:
    # capacity 8: two steps of four groups
    assert dealt("round_robin", [1.0] * 12, [(0, []), (4, [0, 1, 2, 3])]) == [
        [[0, 2, 4, 6], [1, 3, 5, 7]],
        [[8, 10], [9, 11]],
    ]
    assert dealt("round_robin", [1.0] * 12, [(0, []), (0, [])])[1] == [[], []]


def test_a_replica_that_is_behind_gets_fewer_places() -> None:
    # replica 1 has finished nothing of its four when replica 0 has finished all
    assert dealt("least_loaded", [1.0] * 12, [(0, []), (4, [0, 2, 4, 6])])[1] == [[8, 9, 10, 11], []]


def test_after_a_resume_what_is_made_already_is_not_handed_out_again() -> None:
    dealer = Dealer(BOUND, num_replicas=2, rule="round_robin", size_of=lambda _: 1.0)
    dealer.next_place = 5
    dealer.deal(4, {6, 9})
    assert sorted((*dealer.take(0), *dealer.take(1))) == [5, 7, 8, 10, 11]


@pytest.mark.parametrize("num_replicas", [2, 3])
def test_without_age_and_company_the_losses_are_those_of_the_synchronous_run(tmp_path: Path, num_replicas: int) -> None:
    alone = {"rollout_concurrency": 1}
    sync = small_loop(job_of(0), tmp_path / "sync", correction="tis", compact_finished=True, **alone)
    expected = steps_of(sync, 4)
    for routing in ("round_robin", "least_tokens"):
        loop = stream_loop(tmp_path / routing, 0, rollout_replicas=num_replicas, rollout_routing=routing, **alone)
        steps = steps_of(loop, 4)
        assert [step.loss for step in steps] == [step.loss for step in expected]
        assert all(step.lag_max == 0 for step in steps)
        assert check_weights_arrived(steps, num_replicas=num_replicas).judgement is Judgement.PASS


@pytest.fixture(scope="module")
def problems_in_order(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, ...]:
    """Return the prompt lengths of four synchronous steps."""
    sync = small_loop(job_of(0), tmp_path_factory.mktemp("sync"))
    steps_of(sync, 4)
    return sync.lengths().prompt


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.booleans(), min_size=12, max_size=24),
    st.integers(0, 2),
    st.booleans(),
    st.sampled_from(["round_robin", "least_tokens"]),
    st.integers(2, 3),
)
def test_however_fast_each_replica_is_the_bound_holds_and_nothing_is_lost(
    tmp_path: Path,
    problems_in_order: tuple[int, ...],
    eagerness: list[bool],
    max_lag: int,
    inflight: bool,
    routing: str,
    num_replicas: int,
) -> None:
    answers = iter(eagerness)
    loop = stream_loop(
        tmp_path,
        max_lag,
        eager=lambda: next(answers, False),
        inflight_update=inflight,
        rollout_replicas=num_replicas,
        rollout_routing=routing,
    )
    steps = [loop.step() for _ in range(2)]
    loop.settle()
    steps += steps_of(loop, 2)
    assert all(step.lag_max <= max_lag for step in steps)
    for step in steps:
        assert step.queue is not None
        assert step.queue.groups.is_conserved
        assert step.queue.tokens.is_conserved
        assert step.queue.groups.dropped == 0
    assert loop.lengths().prompt == problems_in_order


def test_a_saved_stream_of_replicas_goes_on_with_the_groups_that_came_early(tmp_path: Path) -> None:
    # the second replica never works unless it is waited for: what the first one makes comes early
    how = {"rollout_replicas": 2, "checkpoint_every": 1}
    loop = stream_loop(tmp_path, 1, eager=lambda: False, **how)
    loop.step()
    wire = wire_of(loop)
    while wire.side.has_work:
        wire.work()
    loop.step()
    early = dict(loop.source.buffer.early)  # type: ignore[attr-defined, union-attr]
    loop.close()
    again = stream_loop(tmp_path, 1, **how)
    assert again.resume() == ()
    assert set(again.source.buffer.early) == set(early)  # type: ignore[attr-defined, union-attr]
    steps = steps_of(again, 3)
    assert [step.step for step in steps] == [2, 3, 4]
    assert all(step.queue is not None and step.queue.groups.is_conserved for step in steps)
    assert all(step.lag_max <= 1 for step in steps)
    assert again.lengths().prompt == small_order(tmp_path, 5)


def small_order(folder: Path, num_steps: int) -> tuple[int, ...]:
    sync = small_loop(job_of(0), folder / "order")
    steps_of(sync, num_steps)
    return sync.lengths().prompt


def test_the_rollouts_seconds_are_the_mean_of_its_replicas(tmp_path: Path) -> None:
    forced = SampledLengths(prompt=(5,) * 32, completion=(6,) * 32, rollouts_per_step=16)
    loop = stream_loop(tmp_path, 1, rollout_replicas=2, forced=forced)
    steps = steps_of(loop, 4)
    for step in steps:
        booked = sum(s.seconds for s in step.spans if s.role == "rollout" and "/" not in s.phase)
        assert booked == pytest.approx(step.wall_by_role_s["rollout"], abs=0.02)
    for replica, name in enumerate(("rollout", "rollout-1")):
        assert f'"rank": {replica}' in (tmp_path / f"events.{name}.jsonl").read_text()
    probed = [step.mismatch for step in steps[1:] if step.mismatch is not None]
    assert probed
    assert all(gap.k3 < 1e-9 for gap in probed)


class SilentEnd:
    """The trainer's end of a worker that says nothing, or what it is given."""

    def __init__(self, number: int, folder: Path) -> None:
        self.pipe, self.far_end = Pipe()
        self.killed = list[int]()
        self.end = WireEnd[Any](
            f"rollout replica {number}", folder / "log.txt", self.pipe, lambda: self.killed.append(number), lambda: ""
        )
        self.has_answer, self.receive = self.end.has_answer, self.end.receive


def test_who_makes_the_place_that_is_waited_for_is_stopped_when_all_are_silent(tmp_path: Path) -> None:
    ends = [SilentEnd(number, tmp_path) for number in range(3)]
    (tmp_path / "log.txt").write_text("place 7: rollout with weights 2\n")
    ticks = itertools.count()
    wires = ProcessWires(ends, 0.01, clock=lambda: float(next(ticks)))  # type: ignore[arg-type]
    with pytest.raises(
        TrialError, match=r"the rollout replica 2 gave no answer and was stopped, got 0\.01 s .* place 7"
    ):
        wires.receive(2)
    assert [end.killed for end in ends] == [[], [], [2]]
    # a message of another one is heard, and that a wait of a second has ended makes waiting longer patience
    send_plain(ends[1].far_end, Paused())
    assert wires.receive(0) == (1, Paused())
    assert wires.patience_s == PATIENCE_FACTOR * 1.0
    assert not wires.has_answer()
