import pytest
from fixture_steps import booked, paste_of, points, profile_in, steps_in

from steptune.core.estimate import Source
from steptune.core.phase import Role, SpanKind
from steptune.readers.areal.profile import to_reading
from steptune.readers.facts import JobFacts


def test_box_rows_are_pairs_of_key_and_value() -> None:
    paste = paste_of("areal_table.txt")
    assert paste.framework == "areal"
    assert points(paste, "reward") == [(None, 0.26204, 4)]
    assert points(paste, "lr") == [(None, 5e-06, 3)]
    assert points(paste, "ppo_actor/update/perf/optimizer_step_time") == [(None, 3.1896, 7)]


def test_the_step_is_the_sum_of_timers_and_waiting_for_a_batch_is_a_wait() -> None:
    profile = profile_in(paste_of("areal_table.txt"))
    assert profile.step_time.value == pytest.approx(88.992 + 103.29 + 31.464)
    assert profile.step_time.source is Source.DERIVED
    assert booked(profile, Role.TRAINER) == {
        ("rollout", SpanKind.EXPOSED_WAIT): 88.992,
        ("train", SpanKind.BUSY): 31.464,
        ("weight_sync", SpanKind.BUSY): 103.29,
    }


STEPS = """\
StatsLogger INFO: Epoch 1/10 Step 1/934 Train step 1/9340 done.
StatsLogger INFO: Stats (1/2):
│ timeperf/rollout │ 9.0000e+01 │ timeperf/train_step │ 3.0000e+01 │
StatsLogger INFO: Stats (2/2):
│ ppo_actor/update/entropy/avg │ 2.0000e-01 │
StatsLogger INFO: Epoch 1/10 Step 2/934 Train step 2/9340 done.
│ timeperf/rollout │ 8.0000e+01 │ timeperf/train_step │ 3.1000e+01 │
"""
"""The lines of `StatsLogger.commit` (AReaL cbff54d, areal/utils/stats_logger.py), tables shortened to one row."""


def test_tables_of_one_step_are_one_step() -> None:
    first, second = steps_in("areal", STEPS)
    assert (first.number, len(first.readings), first.value("timeperf/rollout")) == (1, 3, 90.0)
    assert (second.number, second.value("timeperf/rollout")) == (2, 80.0)


def test_rollout_is_work_only_where_no_staleness_is_allowed() -> None:
    facts = JobFacts(version=None, settings={"rollout.max_head_offpolicyness": 0})
    reading = to_reading(steps_in("areal", STEPS)[:1], facts)
    assert reading is not None
    assert reading.profile.schedule == "sync"
    assert booked(reading.profile, Role.ROLLOUT)[("rollout", SpanKind.BUSY)] == 90.0


def test_the_master_worker_told_whole_steps_in_one_line() -> None:
    paste = paste_of("areal_master.txt")
    assert paste.framework == "areal"
    assert points(paste, "step_time") == [(1, 2124.429, 2), (2, 2405.716, 3)]
    assert points(paste, "tokens")[0] == (1, 111847.0, 2)
    profile = profile_in(paste)
    assert profile.step_time.source is Source.MEASURED
    assert booked(profile, Role.TRAINER) == {}
