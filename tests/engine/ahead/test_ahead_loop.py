"""The asynchronous loop with a worker that has no process: exact, and as eager as the test says."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from steptune.core.errors import JobError
from steptune.core.job import JobSpec
from steptune.engine.ahead.groups import join_groups, split_groups
from steptune.engine.loop import Loop
from steptune.engine.produce import Produced

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))
from inline_wire import inline_source, wire_of
from loop_cases import small_job, small_loop


def job_of(max_staleness: int, **algorithm: object) -> JobSpec:
    # random weights solve nothing; the overlong punishment makes rewards differ, so that weights move
    job = small_job(lr=1e-2, overlong_buffer_len=11, **algorithm)
    return job.model_copy(update={"limits": job.limits.model_copy(update={"max_staleness": max_staleness})})


def ahead_loop(
    folder: Path,
    max_lag: int,
    eager: Callable[[], bool] = lambda: True,
    listen: Callable[[], bool] | None = None,
    **knobs: object,
) -> Loop:
    return small_loop(
        job_of(max_lag),
        folder,
        make_source=lambda state: inline_source(state, eager, listen),
        schedule="async",
        max_lag=max_lag,
        correction="tis",
        **knobs,
    )


@pytest.mark.parametrize("max_lag", [0, 1, 3])
def test_an_eager_worker_fills_the_bound_and_never_breaks_it(tmp_path: Path, max_lag: int) -> None:
    loop = ahead_loop(tmp_path, max_lag)
    steps = [loop.step() for _ in range(6)]
    loop.close()
    # the stream begins max_lag steps ahead; from then on every group is exactly as old as it may be
    assert [step.lag_max for step in steps] == [min(i, max_lag) for i in range(6)]
    last = steps[-1].queue
    assert last is not None
    assert last.groups.dropped == 0
    assert last.groups.trained == 6 * 4
    assert last.groups.is_conserved
    assert last.tokens.is_conserved
    assert last.lag_mean == max_lag


def test_a_lazy_worker_gives_fresh_data_only(tmp_path: Path) -> None:
    loop = ahead_loop(tmp_path, 3, eager=lambda: False)
    steps = [loop.step() for _ in range(4)]
    loop.close()
    assert [step.lag_max for step in steps] == [0, 0, 0, 0]
    assert [step.queue.groups.buffered for step in steps if step.queue] == [0, 0, 0, 0]


def test_without_age_the_losses_are_those_of_the_synchronous_run(tmp_path: Path) -> None:
    ahead = ahead_loop(tmp_path / "ahead", 0)
    sync = small_loop(job_of(0), tmp_path / "sync", correction="tis")
    losses = [[loop.step().loss for _ in range(4)] for loop in (ahead, sync)]
    ahead.close()
    sync.close()
    assert losses[0] == losses[1]


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.booleans(), min_size=12, max_size=12), st.integers(0, 2))
def test_however_fast_the_worker_is_the_bound_holds_and_the_problems_come_in_order(
    tmp_path: Path, eagerness: list[bool], max_lag: int
) -> None:
    answers = iter(eagerness)
    loop = ahead_loop(tmp_path, max_lag, eager=lambda: next(answers, False))
    steps = [loop.step() for _ in range(4)]
    lengths = loop.lengths().prompt
    loop.close()
    assert all(step.lag_max <= max_lag for step in steps)
    sync = small_loop(job_of(0), tmp_path / "sync")
    for _ in range(4):
        sync.step()
    sync.close()
    assert lengths == sync.lengths().prompt


def test_the_mismatch_is_probed_at_equal_weights_though_data_is_old(tmp_path: Path) -> None:
    loop = ahead_loop(tmp_path, 1)
    steps = [loop.step() for _ in range(7)]
    loop.close()
    probed = [step.mismatch for step in steps[1:] if step.mismatch is not None]
    assert probed
    assert all(gap.k3 < 1e-9 for gap in probed)
    assert all(step.off_policy[-1].gap.k3 > 1e-7 for step in steps[2:])


def test_weights_that_take_over_between_tokens_are_marked_on_every_token(tmp_path: Path) -> None:
    loop: Loop
    heard: list[int] = []

    def listen() -> bool:
        """After the third token of every round from the second on, a newer version is there."""
        heard.append(len(heard))
        channel, engine = loop.source.channel, wire_of(loop).side.engine  # type: ignore[union-attr]
        if engine.version == 0 or len(heard) % 12 != 3:
            return False
        channel.write(loop.model.state_dict(), engine.version + 10)
        return True

    loop = ahead_loop(tmp_path, 1, listen=listen, eager=lambda: False, inflight_update=True)
    loop.step()
    loop.source.settle()
    loop.source._stand(is_paused=False)  # type: ignore[attr-defined, union-attr]
    made = wire_of(loop).side.make_round(listen).produced
    loop.close()
    versions_BT = made.batch.versions_BT
    rows = versions_BT[made.batch.lengths_B > 3]
    assert (rows[:, :3] == 1).all()
    assert (rows[:, 3] == 11).all()
    assert (versions_BT[~made.batch.mask_BT] == -1).all()


def test_a_rehearsal_publishes_nothing_and_takes_nothing(tmp_path: Path) -> None:
    loop = ahead_loop(tmp_path, 1)
    first = loop.step()
    before = wire_of(loop).side.channel.read().version
    loop.rehearse(1e-4)
    assert wire_of(loop).side.channel.read().version == before == first.weight_version == 1
    step = loop.step()
    loop.close()
    assert step.step == 1
    assert step.queue is not None
    assert step.queue.groups.trained == 8


def test_a_bound_above_the_owners_limit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(JobError, match=r"owner's limit allows, got 2; allowed: 0 to `limits.max_staleness`, 1"):
        small_loop(job_of(1), tmp_path, schedule="async", max_lag=2, correction="tis")


def test_groups_split_and_joined_are_the_round_again(tmp_path: Path) -> None:
    loop = small_loop(small_job(), tmp_path)
    produced = loop.source.next().produced
    loop.close()
    groups = split_groups(produced, 4)
    assert len(groups) == 4
    assert sum(group.num_tokens for group in groups) == int(produced.batch.lengths_B.sum())
    again = join_groups(groups, 4)
    assert_same(again, produced)
    # traces travel once, however the groups are taken
    assert join_groups(groups[1:], 4).traces == ()


def assert_same(a: Produced, b: Produced) -> None:
    for name in ("completion_BT", "lengths_B", "logprobs_BT", "versions_BT", "finished_B"):
        assert torch.equal(getattr(a.batch, name), getattr(b.batch, name)), name
    for name in ("tokens_BP", "lengths_B", "group_B", "problem_B", "sample_B"):
        assert torch.equal(getattr(a.batch.prompts, name), getattr(b.batch.prompts, name)), name
    assert torch.equal(a.raw_reward_B, b.raw_reward_B)
    assert a.traces == b.traces
    assert a.mixed_groups_frac == b.mixed_groups_frac
