"""Partial rollouts: nothing is lost, nothing too old is trained on, long rows are not starved."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from steptune.adapters.embedded.conflicts import conflicts
from steptune.adapters.embedded.knobs import knob_specs
from steptune.core.errors import JobError
from steptune.core.job import JobSpec
from steptune.core.profile import SampledLengths
from steptune.engine.ahead.groups import Group
from steptune.engine.knobs import EngineKnobs
from steptune.engine.loop import Loop
from steptune.engine.produce import Producer, prompt_batch
from steptune.engine.stream.carry import CarryBook, CarryBound
from steptune.engine.stream.groups import Said, Start, rollout_of
from steptune.engine.supply.carrying import Carrying
from steptune.engine.types import RolloutBatch
from steptune.envs.math.problems import Problem

sys.path.insert(0, str(Path(__file__).parents[1]))
from loop_cases import small_job, small_loop

SIZE, STEP = 4, 4
"""Rows of a group, groups of a step (`small_job`)."""


def job_of(max_staleness: int, **algorithm: object) -> JobSpec:
    job = small_job(lr=1e-2, overlong_buffer_len=11, **algorithm)
    limits = job.limits.model_copy(update={"max_staleness": max_staleness, "allow_corrections": True})
    return job.model_copy(update={"limits": limits})


def partial_loop(folder: Path, max_lag: int = 1, factor: float = 1.5, **knobs: Any) -> Loop:
    algorithm = knobs.pop("algorithm", {})
    return small_loop(
        job_of(max_lag, **algorithm),
        folder,
        partial_rollout=factor,
        max_lag=max_lag,
        correction="tis",
        compact_finished=True,
        share_prefill=True,
        **knobs,
    )


def forced(completion: tuple[int, ...]) -> SampledLengths:
    rows = completion * (SIZE * STEP * 4 // len(completion))
    return SampledLengths(prompt=(5,) * len(rows), completion=rows, rollouts_per_step=SIZE * STEP)


LONG_TAIL = forced((2, 2, 2, 2, 3, 3, 3, 3, 2, 12, 2, 2, 4, 4, 4, 4))
"""The third group of every step has a row of 12 tokens, the others end after at most 4."""


def test_the_step_stops_when_enough_groups_are_complete_and_the_long_one_goes_on(tmp_path: Path) -> None:
    loop = partial_loop(tmp_path, forced=LONG_TAIL)
    first, second = loop.step(), loop.step()
    book = loop.source.book  # type: ignore[union-attr]
    loop.close()
    # 6 groups begun; the 12-token row is not waited for in the first step, and finished first in the second
    assert first.decode_iterations == 3
    assert first.completion_len_max == 3
    assert first.lag_max == 0
    assert second.completion_len_max == 12
    assert second.lag_max == 1
    assert second.queue is not None
    assert second.queue.groups.generated == 6 + 4
    assert book.bound.capacity == 6


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.integers(1, 12), min_size=16, max_size=16),
    st.integers(1, 3),
    st.sampled_from([1.25, 1.5, 2.0]),
    st.sampled_from([None, 5]),
)
def test_tokens_and_groups_are_conserved_and_the_bound_holds(
    tmp_path: Path, lengths: list[int], max_lag: int, factor: float, concurrency: int | None
) -> None:
    loop = partial_loop(tmp_path, max_lag, factor, forced=forced(tuple(lengths)), rollout_concurrency=concurrency)
    steps = [loop.step() for _ in range(5)]
    loop.close()
    for step in steps:
        assert step.queue is not None
        assert step.queue.groups.is_conserved
        assert step.queue.tokens.is_conserved  # generated is counted in the decode loop, the others in the book
        assert step.queue.groups.dropped == 0
        assert step.lag_max <= max_lag
    last = steps[-1].queue
    assert last is not None
    assert last.groups.trained == 5 * STEP
    assert last.groups.generated <= 5 * STEP + (factor - 1) * STEP + 1
    assert last.tokens.trained == sum(step.completion_tokens for step in steps)


def test_an_always_long_row_is_not_starved_and_the_bias_is_reported(tmp_path: Path) -> None:
    loop = partial_loop(tmp_path, 2, forced=LONG_TAIL)
    steps = [loop.step() for _ in range(12)]
    problems = loop.lengths()
    loop.close()
    # every fourth group has the long row: 12 steps begin 12 of them, at most the last two steps' are still on their way
    assert sum(length == 12 for length in problems.completion) >= 10
    biases = [step.queue.length_bias for step in steps if step.queue is not None]
    assert all(bias is not None for bias in biases)
    # short rows come first, so the first step's are shorter than what was made; the backlog bounds it ever after
    assert biases[0] is not None
    assert biases[-1] is not None
    assert biases[0] < 1.0
    assert biases[-1] == pytest.approx(1.0, abs=0.05)


def test_carried_tokens_keep_the_logprobs_and_versions_they_were_sampled_with(tmp_path: Path) -> None:
    loop = partial_loop(tmp_path, forced=LONG_TAIL)
    loop.step()
    book = loop.source.book  # type: ignore[union-attr]
    before = {start.number: start.said for start in book.making.values() if start.num_tokens}
    supply = loop.source.next()
    loop.close()
    assert before
    batch, found = supply.produced.batch, 0
    for number, said in before.items():
        for row in range(SIZE):
            length = int(said.length_g[row])
            (at,) = ((batch.prompts.problem_B == 1_000_003 + number) & (batch.prompts.sample_B == row)).nonzero()[:, 0]
            assert torch.equal(batch.logprobs_BT[at, :length], said.logprob_gT[row, :length])
            assert torch.equal(batch.completion_BT[at, :length], said.completion_gT[row, :length])
            assert (batch.versions_BT[at, :length] == 0).all()
            assert (batch.versions_BT[at, length : int(batch.lengths_B[at])] == 1).all()
            found += length
    assert found > 0
    (trace,) = supply.produced.traces
    assert trace.resumed_tokens > 0


def test_without_partial_rollouts_the_same_tokens_are_sampled_in_the_first_step(tmp_path: Path) -> None:
    plain = small_loop(job_of(1), tmp_path / "plain", correction="tis", compact_finished=True)
    carried = partial_loop(tmp_path / "carried", factor=1.25)
    batches = [loop.source.next().produced.batch for loop in (plain, carried)]
    plain.close()
    carried.close()
    of_problem = {
        (int(p), int(s)): batches[0].completion_BT[i, : int(batches[0].lengths_B[i])].tolist()
        for i, (p, s) in enumerate(zip(batches[0].prompts.problem_B, batches[0].prompts.sample_B, strict=True))
    }
    shared = 0
    for i, (p, s) in enumerate(zip(batches[1].prompts.problem_B, batches[1].prompts.sample_B, strict=True)):
        if (int(p), int(s)) in of_problem:
            assert batches[1].completion_BT[i, : int(batches[1].lengths_B[i])].tolist() == of_problem[int(p), int(s)]
            shared += 1
    assert shared >= SIZE


def test_a_group_whose_version_has_run_away_is_dropped_and_counted(tmp_path: Path) -> None:
    loop = partial_loop(tmp_path, forced=LONG_TAIL)
    loop.step()
    loop.state.version += 5
    step = loop.step()
    loop.close()
    assert step.queue is not None
    assert step.queue.groups.dropped >= 1
    assert step.queue.groups.is_conserved
    assert step.queue.tokens.is_conserved
    assert step.lag_max == 0


def test_a_rehearsal_leaves_the_book_as_it_was(tmp_path: Path) -> None:
    rehearsed, plain = (partial_loop(tmp_path / name, forced=LONG_TAIL) for name in ("a", "b"))
    losses = []
    for loop in (rehearsed, plain):
        steps = [loop.step()]
        if loop is rehearsed:
            loop.rehearse(1e-4)
        steps.append(loop.step())
        losses.append([(step.loss, step.queue) for step in steps])
        loop.close()
    assert losses[0] == losses[1]


def test_a_resumed_run_goes_on_with_its_unfinished_rows(tmp_path: Path) -> None:
    whole = partial_loop(tmp_path / "whole", forced=LONG_TAIL, checkpoint_every=2)
    expected = [whole.step() for _ in range(5)]
    whole.close()
    begun = partial_loop(tmp_path / "killed", forced=LONG_TAIL, checkpoint_every=2)
    [begun.step() for _ in range(3)]
    begun.close()
    again = partial_loop(tmp_path / "killed", forced=LONG_TAIL, checkpoint_every=2)
    assert again.resume() == ()
    steps = [again.step() for _ in range(3)]
    again.close()
    assert [(s.loss, s.lag_max, s.queue) for s in steps] == [(s.loss, s.lag_max, s.queue) for s in expected[2:]]


def test_dynamic_sampling_makes_the_place_again_and_counts_stay_true(tmp_path: Path) -> None:
    loop = partial_loop(tmp_path, algorithm={"dynamic_sampling": True, "max_sampling_rounds": 2})
    steps = [loop.step() for _ in range(3)]
    loop.close()
    assert all(step.queue is not None and step.queue.tokens.is_conserved for step in steps)
    assert all(step.mixed_groups_frac == 0.0 for step in steps)


def test_a_carried_group_is_held_against_the_problem_that_it_was_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verify, is_its_own = Producer.verify, list[bool]()

    def seen(self: Producer, batch: RolloutBatch, problems: Sequence[Problem]) -> torch.Tensor:
        (problem,) = problems
        asked = self.vocabulary.encode_prompt(problem.text)
        is_its_own.append(batch.prompts.tokens_BP[0, : int(batch.prompts.lengths_B[0])].tolist() == asked)
        return verify(self, batch, problems)

    monkeypatch.setattr(Producer, "verify", seen)
    how = {"dynamic_sampling": True, "max_sampling_rounds": 3}

    def run(num_steps: int) -> Loop:
        loop = partial_loop(tmp_path, checkpoint_every=1, algorithm=how, rollout_concurrency=8)
        loop.resume()
        [loop.step() for _ in range(num_steps)]
        return loop

    loop = run(1)
    places = loop.source.places.tries  # type: ignore[union-attr]
    assert set(places) & set(loop.source.book.making)  # type: ignore[union-attr]  a later problem goes on
    loop.rehearse(1e-4)
    loop.step()
    loop.close()
    run(2).close()  # from the state, in a process that knows nothing else
    assert len(is_its_own) > 12
    assert all(is_its_own)


def test_what_must_be_taken_always_fits_into_a_step() -> None:
    book = CarryBook(CarryBound(groups_per_step=2, updates_per_step=1, max_lag=1, capacity=4))
    opened = book.open(0, fake_start)
    assert [start.number for start in opened] == [0, 1, 2, 3]
    for number in (3, 2):
        book.complete(fake_group(number, version=0))
    assert book.is_enough(0)
    assert [group.number for group in book.take()] == [2, 3]
    carried = [fake_start(number, version=0) for number in (0, 1)]
    book.carry(carried, num_sampled=24)
    assert [start.number for start in book.open(1, fake_start)] == [0, 1, 4, 5]
    for number in (4, 5):
        book.complete(fake_group(number, version=1))
    assert not book.is_enough(1)  # two groups are complete, but 0 and 1 would be too old in the next step
    for number in (0, 1):
        book.complete(fake_group(number, version=0))
    assert book.is_enough(1)
    assert [group.number for group in book.take()] == [0, 1]


def fake_said(version: int) -> Said:
    zeros = torch.zeros(1, 3)
    return Said(
        completion_gT=zeros.long(),
        logprob_gT=zeros,
        raw_logprob_gT=None,
        entropy_gT=zeros,
        version_gT=torch.full((1, 3), version),
        length_g=torch.tensor([3]),
        is_done_g=torch.tensor([False]),
        routes_gLJk=None,
    )


def fake_start(number: int, version: int | None = None) -> Start:
    said = None if version is None else fake_said(version)
    prompts = prompt_batch(["1+1"], [number], 1)
    return Start(number=number, prompts=prompts, limit_g=torch.tensor([12]), said=said)


def fake_group(number: int, version: int) -> Group:
    batch = rollout_of(fake_start(number), fake_said(version), pad_id=0, eos_ids=(1,), is_forced=True)
    return Group(number=number, batch=batch, raw_reward_B=torch.zeros(1), mixed_groups_frac=0.0)


@pytest.mark.parametrize(
    ("knobs", "got"),
    [
        ({"max_lag": None}, "needs a `max_lag` that the owner's limit allows, got None"),
        ({"max_lag": 2}, "owner's limit allows, got 2"),
        ({"max_lag": 0}, "owner's limit allows, got 0"),
        ({"compact_finished": False}, "partial_rollout refills slots as rows finish"),
        ({"schedule": "one_step_off"}, "belongs to schedule=sync"),
    ],
)
def test_what_cannot_be_carried_over_is_refused(tmp_path: Path, knobs: dict[str, Any], got: str) -> None:
    settings_of = {"partial_rollout": 1.5, "max_lag": 1, "correction": "tis", "compact_finished": True, **knobs}
    with pytest.raises(JobError, match=got):
        small_loop(job_of(1), tmp_path, **settings_of)


def test_the_tuner_meets_partial_rollouts_only_where_they_are_named() -> None:
    def values(job: JobSpec, name: str) -> tuple[object, ...]:
        return next(spec.values for spec in knob_specs(job) if spec.name == name)

    job = job_of(1)
    assert values(job, "partial_rollout") == (None,)
    named = job.model_copy(update={"knobs": job.knobs.model_copy(update={"allow": ("partial_rollout",)})})
    assert values(named, "partial_rollout") == (None, 1.25, 1.5)
    assert values(named, "max_lag") == (None, 1)
    assert values(named, "schedule") == ("sync", "one_step_off")


def test_partial_rollouts_owe_a_correction_and_an_age() -> None:
    def check(**more: object) -> tuple[str, ...]:
        good = {"partial_rollout": 1.25, "max_lag": 1, "correction": "tis", "compact_finished": True}
        return conflicts(job_of(1), EngineKnobs.model_validate({**good, **more}))

    assert check() == ()
    assert check(correction="none") == ("partial_rollout needs an importance-sampling correction",)
    assert any("max_lag belongs" in reason for reason in check(max_lag=None))
    assert any("limits.max_staleness is 1" in reason for reason in check(max_lag=2))


def test_a_partial_run_is_the_loops_own_choice(tmp_path: Path) -> None:
    loop = partial_loop(tmp_path)
    assert isinstance(loop.source, Carrying)
    loop.close()
