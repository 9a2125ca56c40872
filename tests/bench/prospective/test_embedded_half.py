"""The embedded engine's half without a run: what is pinned for the probe, and how something slow gets in."""

from types import SimpleNamespace

import pytest

from prospective import slowed_serve
from prospective.embedded_half import first_steps, reachable
from prospective.embedded_space import NUM_CORES, PERIOD_STEPS, companions, forced_lengths, job_spec
from prospective.frozen import LISTS

JOBS = [job for job in LISTS[1].frozen() if job.engine == "embedded"]


def test_the_probe_prices_what_candidates_move_and_no_more() -> None:
    for job in JOBS:
        pinned = reachable(job).knobs.pin
        moved = {knob for moves in job.candidates for knob in moves}
        assert not moved & pinned.keys()
        assert all(job.baseline[knob] == value for knob, value in pinned.items())


def test_both_numbers_of_threads_are_priced_where_a_quota_is_used() -> None:
    quoted = [job for job in JOBS if any(job.settings(m)["rollout_cores"] is not None for m in ({}, *job.candidates))]
    assert quoted
    assert all("train_threads" not in reachable(job).knobs.pin for job in quoted)


def test_every_block_does_the_work_of_whole_periods() -> None:
    job = JOBS[0]
    lengths = forced_lengths(job)
    rows = job.prompts_per_step * job.group_size
    assert len(lengths.completion) == PERIOD_STEPS * rows
    assert max(lengths.completion) <= job.lengths.longest == job_spec(job).algorithm.max_completion_len
    twice = lengths.model_copy(update={"prompt": lengths.prompt * 2, "completion": lengths.completion * 2})
    assert first_steps(twice) == lengths


def test_a_quota_fixes_threads_and_a_queue_its_bound() -> None:
    drawn = {**JOBS[0].baseline, "schedule": "async", "rollout_cores": 0.5, "max_lag": None, "handover": "alias"}
    moves = companions(drawn)
    assert (moves["rollout_threads"], moves["train_threads"]) == (1, NUM_CORES)
    assert moves["max_lag"] == 1
    assert moves["handover"] == "copy"
    assert moves["correction"] == "tis"


def test_a_synchronous_configuration_drops_what_means_nothing_to_it() -> None:
    drawn = {**JOBS[0].baseline, "schedule": "sync", "partial_rollout": None, "rollout_cores": 1.5, "max_lag": 2}
    moves = companions(drawn)
    assert moves["rollout_cores"] is None
    assert moves["max_lag"] is None
    assert moves["correction"] == "none"


def test_tools_take_a_groups_share_where_groups_are_made_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(slowed_serve.time, "sleep", slept.append)
    producer = SimpleNamespace(job=SimpleNamespace(algorithm=SimpleNamespace(prompts_per_step=4)))
    verify = slowed_serve._waiting_for_tools(lambda producer, batch, problems: len(problems), 0.08)
    assert verify(producer, None, ["a"] * 4) == 4
    assert verify(producer, None, ["a"]) == 1
    assert slept == pytest.approx([0.08, 0.02])


def test_a_hand_over_by_file_pauses_once(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(slowed_serve.time, "sleep", slept.append)
    hand_over = slowed_serve._late_but_by_file(lambda *arguments: None, 0.05)
    hand_over("copy", None)
    hand_over("file", None)  # the channel inside is late by itself
    assert slept == [0.05]
