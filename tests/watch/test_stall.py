"""Silence against a job's own rhythm, and crash loops."""

import math

from watch_pastes import paste, series

from steptune.core.paste import Paste
from steptune.core.watched import Alarm
from steptune.watch.attempts import crash_loop
from steptune.watch.stall import MIN_SILENCE_S, NO_STEP_SILENCE_S, allowed_silence_s, stall

SLOW = paste(series("step_time", [50, 200, 60]), num_lines=30)
NO_PHASE = ("unknown", "")


def silent(
    log: Paste, silent_s: float, *, phase: tuple[str, str] = NO_PHASE, last: tuple[str, ...] = ()
) -> Alarm | None:
    return stall(log, silent_s=silent_s, allowed_s=allowed_silence_s(log), named_phase=phase, last=last)


def test_silence_is_allowed_for_five_of_the_longest_steps() -> None:
    assert allowed_silence_s(SLOW) == 1000
    assert silent(SLOW, 1000) is None
    assert silent(SLOW, 1001) is not None


def test_fast_jobs_unborn_jobs_and_users_have_their_own_patience() -> None:
    assert allowed_silence_s(paste(series("step_time", [1.0]))) == MIN_SILENCE_S
    assert allowed_silence_s(paste()) == NO_STEP_SILENCE_S
    assert allowed_silence_s(SLOW, told_s=7) == 7


def test_a_silence_of_unknown_length_proves_nothing() -> None:
    assert silent(SLOW, math.nan) is None


def test_the_phase_is_that_of_the_last_lines_or_what_follows_a_whole_step_or_unknown() -> None:
    named = silent(SLOW, 2000, phase=("weight_sync", "update_weights"), last=("update_weights ...",))
    assert named is not None
    assert "in `weight_sync` (by `update_weights`)" in named.text
    after = silent(SLOW, 2000, last=("step:3 ...",))  # step 3 stands on line 30 of 30
    assert after is not None
    assert "in `rollout` or what else comes first after step 3" in after.text
    later = silent(SLOW.model_copy(update={"num_lines": 90}), 2000, last=("hm", "hm", "hm"))
    assert later is not None
    assert "in an unknown phase" in later.text


def test_three_restarts_without_a_new_furthest_step_are_a_loop() -> None:
    looping = [1, 2, 3, 1, 2, 3, 1, 2, 1]
    alarm = crash_loop(paste(series("step_time", [1.0] * 9, steps=looping)))
    assert alarm is not None
    assert "3 times without getting past step 3" in alarm.text
    assert crash_loop(paste(series("step_time", [1.0] * 6, steps=looping[:6]))) is None


def test_a_job_that_gets_further_between_restarts_does_not_loop() -> None:
    further = [1, 2, 1, 2, 3, 2, 3, 4, 3, 4, 5, 4]
    assert crash_loop(paste(series("step_time", [1.0] * 12, steps=further))) is None
    assert crash_loop(paste()) is None
