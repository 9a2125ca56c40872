"""The asynchronous loop with a worker that has no process: exact, and as eager as the test says."""

import itertools
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from steptune.core.errors import JobError
from steptune.core.job import JobSpec
from steptune.core.profile import SampledLengths
from steptune.core.trial import Observation
from steptune.engine.loop import Loop

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))
from inline_wire import inline_source, wire_of
from loop_cases import small_job, small_loop


def job_of(max_staleness: int, **algorithm: object) -> JobSpec:
    # random weights solve nothing; the overlong punishment makes rewards differ, so that weights move
    job = small_job(lr=1e-2, overlong_buffer_len=11, **algorithm)
    return job.model_copy(update={"limits": job.limits.model_copy(update={"max_staleness": max_staleness})})


def ahead_loop(folder: Path, max_lag: int, eager: Callable[[], bool] = lambda: True, **knobs: object) -> Loop:
    algorithm, forced = knobs.pop("algorithm", {}), knobs.pop("forced", None)
    assert isinstance(algorithm, dict)
    assert forced is None or isinstance(forced, SampledLengths)
    return small_loop(
        job_of(max_lag, **algorithm),
        folder,
        forced=forced,
        make_source=lambda state: inline_source(state, eager),
        schedule="async",
        max_lag=max_lag,
        correction="tis",
        compact_finished=True,
        **knobs,
    )


def assert_conserved(steps: list[Observation]) -> None:
    for step in steps:
        assert step.queue is not None
        assert step.queue.groups.is_conserved
        assert step.queue.tokens.is_conserved


@pytest.mark.parametrize("max_lag", [0, 1, 3])
@pytest.mark.parametrize("inflight", [False, True])
def test_an_eager_worker_fills_the_bound_and_never_breaks_it(tmp_path: Path, max_lag: int, inflight: bool) -> None:
    loop = ahead_loop(tmp_path, max_lag, inflight_update=inflight)
    steps = [loop.step() for _ in range(6)]
    loop.close()
    # the stream begins max_lag steps ahead; from then on every group is exactly as old as it may be
    assert [step.lag_max for step in steps] == [min(i, max_lag) for i in range(6)]
    assert_conserved(steps)
    last = steps[-1].queue
    assert last is not None
    assert last.groups.dropped == 0
    assert last.groups.trained == 6 * 4
    assert last.lag_mean == max_lag


def test_without_age_the_losses_are_those_of_the_synchronous_run(tmp_path: Path) -> None:
    ahead = ahead_loop(tmp_path / "ahead", 0)
    sync = small_loop(job_of(0), tmp_path / "sync", correction="tis", compact_finished=True)
    losses = [[loop.step().loss for _ in range(4)] for loop in (ahead, sync)]
    ahead.close()
    sync.close()
    assert losses[0] == losses[1]


@pytest.fixture(scope="module")
def problems_in_order(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, ...]:
    """Return the prompt lengths of four synchronous steps."""
    sync = small_loop(job_of(0), tmp_path_factory.mktemp("sync"))
    for _ in range(4):
        sync.step()
    sync.close()
    return sync.lengths().prompt


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.booleans(), min_size=12, max_size=12), st.integers(0, 2), st.booleans(), st.sampled_from([None, 3]))
def test_however_fast_the_worker_is_the_bound_holds_and_the_problems_come_in_order(
    tmp_path: Path,
    problems_in_order: tuple[int, ...],
    eagerness: list[bool],
    max_lag: int,
    inflight: bool,
    concurrency: int | None,
) -> None:
    answers = iter(eagerness)
    loop = ahead_loop(
        tmp_path,
        max_lag,
        eager=lambda: next(answers, False),
        inflight_update=inflight,
        rollout_concurrency=concurrency,
    )
    steps = [loop.step() for _ in range(4)]
    lengths = loop.lengths().prompt
    loop.close()
    assert all(step.lag_max <= max_lag for step in steps)
    assert all(step.queue is not None and step.queue.groups.dropped == 0 for step in steps)
    assert_conserved(steps)
    assert lengths == problems_in_order


def test_slots_never_drain_while_the_bound_allows_more(tmp_path: Path) -> None:
    # every group has one long row; a round of 16 rows would take as many iterations as the longest: 4 rounds, 48
    forced = SampledLengths(prompt=(5,) * 64, completion=(12, 1, 2, 3) * 16, rollouts_per_step=16)
    loop = ahead_loop(tmp_path, 3, forced=forced)
    loop.step()
    running = [rows for made in wire_of(loop).sent for rows in made.trace.running_I]
    loop.close()
    assert sum(running) == 16 * (12 + 1 + 2 + 3)
    # 16 slots refilled by whole groups: until nothing may be begun any more no more than a group's rows are missing
    num_full = next(i for i in range(len(running)) if sum(running[:i]) > sum(running) / 2)
    assert min(running[:num_full]) > 16 - 2 * 4
    assert len(running) < 36


def test_without_inflight_update_a_row_has_one_version_and_weights_are_still_taken(tmp_path: Path) -> None:
    forced = SampledLengths(
        prompt=(5,) * 48, completion=(12, 1, 2, 3, 5, 4, 6, 7, 2, 9, 1, 1, 7, 3, 8, 3) * 3, rollouts_per_step=16
    )
    loop = ahead_loop(tmp_path, 2, eager=lambda: False, forced=forced)
    steps = [loop.step() for _ in range(9)]
    sent = wire_of(loop).sent
    loop.close()
    versions = list[int]()
    for made in sent:
        for group in made.groups:
            for row in range(4):
                said = group.batch.versions_BT[row, : int(group.batch.lengths_B[row])]
                assert len(said.unique()) == 1
            versions.append(int(group.batch.versions_BT[0, 0]))
    # the slots run empty, and the newest weights are taken, once in 1 + max_lag steps
    assert sorted(set(versions)) == [0, 3, 6]
    assert max(step.lag_max for step in steps) == 2
    assert steps[-1].queue is not None
    assert steps[-1].queue.groups.dropped == 0


def test_weights_that_take_over_between_tokens_are_marked_on_every_token(tmp_path: Path) -> None:
    loop = ahead_loop(tmp_path, 1, eager=lambda: False, inflight_update=True)
    loop.step()
    loop.settle()
    side = wire_of(loop).side
    loop.source._stand(is_paused=False)  # type: ignore[attr-defined, union-attr]
    assert side.standing is not None
    countdown = itertools.count(1)
    wire_of(loop).work(lambda: next(countdown) == 3)
    # after the third token a newer version is there
    loop.state.version += 10
    side.channel.write({name: p * 1.5 for name, p in loop.model.state_dict().items()}, loop.state.version)
    loop.source._stand(is_paused=False)  # type: ignore[attr-defined, union-attr]
    sent = len(wire_of(loop).sent)
    while side.has_work:
        wire_of(loop).work()
    loop.close()
    begun_before = [g for made in wire_of(loop).sent[sent:] for g in made.groups if (g.batch.versions_BT == 1).any()]
    assert begun_before
    for group in begun_before:
        versions_BT, mask_BT = group.batch.versions_BT, group.batch.mask_BT
        assert (versions_BT[:, :3][mask_BT[:, :3]] == 1).all()
        assert (versions_BT[:, 3:][mask_BT[:, 3:]] == 11).all()
        assert (versions_BT[~mask_BT] == -1).all()
        assert group.oldest_version == 1


def test_the_mismatch_is_probed_at_equal_weights_though_data_is_old(tmp_path: Path) -> None:
    loop = ahead_loop(tmp_path, 1)
    steps = [loop.step() for _ in range(7)]
    loop.close()
    probed = [step.mismatch for step in steps[1:] if step.mismatch is not None]
    assert len(probed) >= 4
    assert all(gap.k3 < 1e-9 for gap in probed)
    assert all(gap.num_tokens <= 8 * 8 for gap in probed)
    assert all(step.off_policy[-1].gap.k3 > 1e-7 for step in steps[2:])


def test_tokens_over_a_mixed_cache_are_no_gap_at_equal_weights(tmp_path: Path) -> None:
    lengths = (12, 1, 2, 3, 5, 4, 6, 7, 2, 9, 1, 1, 7, 3, 8, 3)
    forced = SampledLengths(prompt=(5,) * 48, completion=lengths * 3, rollouts_per_step=16)
    loop = ahead_loop(tmp_path, 1, eager=lambda: False, inflight_update=True, forced=forced)
    steps = [loop.step() for _ in range(8)]
    groups = [group for made in wire_of(loop).sent for group in made.groups]
    loop.close()
    # rows that were sampled by two versions, and trained on while the later of them was the newest
    late = [g for g in groups if len(g.batch.versions_BT[g.batch.mask_BT].unique()) > 1 and g.number // 4 > 0]
    assert any(int(g.batch.versions_BT.max()) == g.number // 4 for g in late)
    probed = [step.mismatch for step in steps if step.mismatch is not None]
    assert len(probed) >= 4
    assert all(gap.k3 < 1e-9 for gap in probed)


def test_a_group_that_teaches_nothing_is_made_again_with_the_next_problem_of_its_place(tmp_path: Path) -> None:
    # nothing is ever solved, so no group is mixed: every place is tried as often as it may be
    loop = ahead_loop(tmp_path, 1, algorithm={"dynamic_sampling": True, "max_sampling_rounds": 3})
    step = loop.step()
    sampled = sum(sum(made.trace.running_I) for made in wire_of(loop).sent)
    kept = sum(group.num_tokens for made in wire_of(loop).sent for group in made.groups)
    problems = wire_of(loop).sent[0].groups[0].batch.prompts.problem_B.tolist()
    loop.close()
    assert step.mixed_groups_frac == 0.0
    assert sampled > 2 * kept
    # the third round of step 0: problems 8 to 11 of the seed's stream
    assert {problem - 1_000_003 for problem in problems} <= {8, 9, 10, 11}


def test_forced_lengths_come_to_the_rows_they_were_recorded_from(tmp_path: Path) -> None:
    first = small_loop(job_of(0), tmp_path / "first", compact_finished=True)
    first.step()
    forced = first.lengths()
    first.close()
    loop = small_loop(
        job_of(1),
        tmp_path / "again",
        forced=forced,
        make_source=inline_source,
        schedule="async",
        max_lag=1,
        correction="tis",
        compact_finished=True,
    )
    loop.step()
    lengths = loop.lengths().completion
    loop.close()
    assert lengths == forced.completion


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
        small_loop(job_of(1), tmp_path, schedule="async", max_lag=2, correction="tis", compact_finished=True)


@pytest.mark.parametrize(
    ("knobs", "got"),
    [
        ({"compact_finished": False}, "needs compact_finished"),
        ({"admit_order": "longest_first"}, "no queue to order"),
        ({"reuse_prefixes": True}, "keeps no finished turns"),
    ],
)
def test_knobs_that_a_stream_cannot_follow_are_refused(tmp_path: Path, knobs: dict[str, object], got: str) -> None:
    settings = {"compact_finished": True, **knobs}
    with pytest.raises(JobError, match=got):
        small_loop(job_of(1), tmp_path, schedule="async", max_lag=1, correction="tis", **settings)


def test_a_probe_is_few_tokens_of_rows_of_every_length(tmp_path: Path) -> None:
    from steptune.engine.probe_rows import probe_rows

    loop = small_loop(small_job(), tmp_path)
    batch = loop.source.next().produced.batch
    probe = probe_rows(batch)
    whole_BT = loop.state.trainer.logprobs(batch, 2048)
    logprobs_rT = loop.state.trainer.logprobs(probe, 2048)
    loop.close()
    assert probe.lengths_B.max() <= 8
    row_of = {
        (int(p), int(s)): row
        for row, (p, s) in enumerate(zip(batch.prompts.problem_B, batch.prompts.sample_B, strict=True))
    }
    for r in range(len(probe.lengths_B)):
        row = row_of[int(probe.prompts.problem_B[r]), int(probe.prompts.sample_B[r])]
        end, num = int(batch.lengths_B[row]), int(probe.lengths_B[r])
        assert torch.equal(probe.completion_BT[r, :num], batch.completion_BT[row, end - num : end])
        # the same tokens behind the same history have the same log-probs
        torch.testing.assert_close(logprobs_rT[r, :num], whole_BT[row, end - num : end], atol=1e-5, rtol=0)
