from pathlib import Path

import pytest
from reader_logs import FIXTURES, profile_at, seconds

from steptune.core.phase import Role, SpanKind
from steptune.readers.read_paste import read_paste


def texts(paths: list[Path]) -> list[str]:
    return [note.text for note in read_paste(paths).notes]


def one_step(tmp_path: Path, metrics: str) -> list[Path]:
    log = tmp_path / "run.log"
    log.write_text(f"step:7 - timing_s/gen:40.0 - {metrics} - timing_s/step:80.0 - a/b:1\nend of log\n")
    return [log]


def test_an_mfu_above_one_is_flagged_with_its_line() -> None:
    notes = read_paste([FIXTURES / "verl_sync_wrapped.txt"]).notes
    [mfu] = [note for note in notes if "mfu" in note.text]
    assert "is above 1" in mfu.text
    assert "got 1.018" in mfu.text
    assert mfu.origin is not None
    assert (mfu.origin.line, mfu.origin.key) == (2, "perf/mfu/actor")


def test_a_believable_mfu_is_not_flagged(tmp_path: Path) -> None:
    assert not any("mfu" in text for text in texts(one_step(tmp_path, "perf/mfu/actor:0.42")))


def test_zeros_of_a_three_decimal_log_are_said_to_be_rounded() -> None:
    assert any("below 0.0005" in text for text in texts([FIXTURES / "verl_sync_wrapped.txt"]))
    assert not any("below 0.0005" in text for text in texts([FIXTURES / "verl_fully_async.txt"]))


def test_minus_one_in_a_counter_is_not_measured_but_a_reward_of_minus_one_is(tmp_path: Path) -> None:
    found = texts(one_step(tmp_path, "timing_s/agent_loop/num_preempted/max:-1 - critic/score/min:-1.0"))
    assert [text for text in found if "-1" in text] == [
        "`timing_s/agent_loop/num_preempted/max` is -1: not measured, got -1"
    ]


@pytest.mark.parametrize("value", ["-1", "nan", "inf", "80.5"])
def test_an_impossible_timer_never_reaches_the_profile(tmp_path: Path, value: str) -> None:
    paths = one_step(tmp_path, f"timing_s/update_actor:{value}")
    profile = profile_at(paths)
    assert seconds(profile, Role.TRAINER, "train", SpanKind.BUSY) == 0
    assert "phase.train" in profile.missing
    assert any("timing_s/update_actor" in text for text in texts(paths))


def test_timers_that_add_up_to_more_than_the_step_are_said_to_overlap(tmp_path: Path) -> None:
    assert any("overlap" in text for text in texts(one_step(tmp_path, "timing_s/update_actor:50.0")))
    assert not any("overlap" in text for text in texts(one_step(tmp_path, "timing_s/update_actor:39.0")))


def test_a_single_step_makes_no_claim_and_six_do(tmp_path: Path) -> None:
    assert any("one step only" in text for text in texts(one_step(tmp_path, "a/c:1")))
    assert not any("one step only" in text for text in texts([FIXTURES / "verl_fully_async.txt"]))


def test_a_value_that_is_suspicious_in_every_step_is_one_note(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    steps = [f"step:{n} - perf/mfu/actor:1.{n} - timing_s/step:80.0 - a/b:1\n" for n in range(3, 9)]
    log.write_text("".join(steps))
    assert len([text for text in texts([log]) if "mfu" in text and "first of 6 steps" in text]) == 1
