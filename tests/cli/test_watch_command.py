"""`steptune watch`: exit codes, what is said, and logs that rotate, begin again, vanish or fall silent."""

import argparse
import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from steptune.cli.log_files import FileState, age_s, happened
from steptune.cli.main import main
from steptune.cli.watch_command import follow
from steptune.cli.watch_inputs import watch_inputs
from steptune.core.change import Change
from steptune.core.decision import Decision, Outcome, Range, Tripwire
from steptune.core.estimate import Estimate, Source
from steptune.core.job import JobSpec
from steptune.core.knob import Effect, Restart
from steptune.core.training import TrainedStep, Training
from steptune.decide.tripwires import PROFILE_AGAIN, RETURN
from steptune.store.run_folder import RunFolder
from steptune.store.views import TripwireView

Capture = pytest.CaptureFixture[str]


def line(step: int, seconds: float, *, reward: float = 0.5) -> str:
    """One step of verl; lines differ in length, or the reader would take them for cut at a screen's edge."""
    return (
        f"step:{step} - critic/score/mean:{reward + step * 0.01} - actor/entropy:1.0 - actor/grad_norm:0.3 - "
        f"response_length/mean:10.0 - response_length/max:16.0 - response_length/clip_ratio:0.01 - "
        f"timing_s/gen:{seconds / 2} - timing_s/step:{seconds} - training/note:{'1' * step}\n"
    )


@pytest.fixture
def tuned_run() -> Path:
    """The files of a finished session that `watch` reads: baseline 0.9 s, at least 1.5 times as fast confirmed."""
    bounds = {"mismatch_k3": 1e-3, "lag_max": 0, "truncated_frac": 0.06, "step_time_s": 0.9}
    wires = tuple(
        Tripwire(metric=metric, bound=bound, above=True, action=PROFILE_AGAIN if metric == "step_time_s" else RETURN)
        for metric, bound in bounds.items()
    )
    folder = RunFolder.create(Path("runs"), JobSpec(name="tiny", framework="fake"), lambda: datetime.now(UTC))
    decision = Decision(
        outcome=Outcome.ADOPT,
        change=Change(moves=(), effect=Effect.NONE, restart=Restart.HOT),
        settings={"layout": "packed"},
        speedup=Estimate(value=2.0, low=1.5, high=2.5, unit="x", source=Source.MEASURED),
        reasons=("faster",),
        tripwires=wires,
        holds_for=Range(completion_len_mean=12, completion_len_max=16, forecast_ratio_at={"1x": 0.5, "2x": 0.5}),
        cost_wall_s=1,
        cost_device_s=1,
        break_even_step=10,
    )
    view = TripwireView(job="tiny", signature="abc", tripwires=wires, back_to={"layout": "padded"})
    (folder.path / "decision.json").write_text(decision.model_dump_json())
    (folder.path / "tripwires.json").write_text(view.model_dump_json())
    return folder.path


@pytest.fixture
def log() -> Path:
    path = Path("train.log")
    path.write_text("".join(line(step, 0.2) for step in range(1, 7)))
    return path


def slow(log: Path, *, first: int = 7, count: int = 5) -> None:
    with log.open("a") as file:
        file.write("".join(line(step, 900.0) for step in range(first, first + count)))


class Clock:
    """A clock that only sleeping moves; what happens to the log happens between two looks."""

    def __init__(self, *events: Callable[[], object]) -> None:
        self.events, self.now = list(events), 1000.0

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> float:
        return max((path.stat().st_mtime for path in Path().glob("*.log")), default=0.0)

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        if self.events:
            self.events.pop(0)()


def followed(clock: Clock, *targets: str) -> int:
    args = argparse.Namespace(targets=list(targets), every=30.0, stall=None, json=False)
    return follow(watch_inputs(targets), args, clock)


def test_a_healthy_job_exits_with_zero_and_says_which_wires_hold_and_which_nobody_can_judge(
    log: Path, tuned_run: Path, capsys: Capture
) -> None:
    assert main(["watch", str(log), str(tuned_run), "--once"]) == 0
    out = capsys.readouterr().out
    assert "6 steps, the last is 6; nothing to act on" in out
    assert "holds: truncated_frac, step_time_s, completion_len_mean, completion_len_max" in out
    assert "not judged: mismatch_k3: the log does not tell it" in out


def test_a_slow_job_exits_with_three_and_names_step_line_and_action(
    log: Path, tuned_run: Path, capsys: Capture
) -> None:
    slow(log)
    assert main(["watch", str(log), str(tuned_run), "--once"]) == 3
    out = capsys.readouterr().out
    assert "the decision no longer holds since step 7: `step_time_s` is 900" in out
    assert "(train.log:7)" in out
    assert "do: profile and tune again" in out


@pytest.mark.parametrize(
    ("key", "metric", "calm", "beyond"),
    [
        ("train/num_gen_batches", "gen_batches", 1, 2),
        ("timing_s/agent_loop/tool_calls/mean", "tool_time_s", 3.0, 4.6),
    ],
)
def test_acceptance_and_tool_time_are_held_against_the_logs_own_start(
    key: str, metric: str, calm: float, beyond: float, tuned_run: Path, capsys: Capture
) -> None:
    log = Path("tools.log")
    log.write_text("".join(told(step, f"{key}:{calm}") for step in range(1, 11)))
    assert main(["watch", str(log), str(tuned_run), "--once"]) == 0
    assert metric in capsys.readouterr().out.split("holds: ")[1].split("\n")[0]
    with log.open("a") as file:
        file.write("".join(told(step, f"{key}:{beyond}") for step in range(11, 15)))
    assert main(["watch", str(log), str(tuned_run), "--once"]) == 3
    assert f"the decision no longer holds since step 11: `{metric}` is {beyond:g}" in capsys.readouterr().out


def told(step: int, more: str) -> str:
    """A step of verl that says one thing more."""
    return line(step, 0.2).replace(" - timing_s/gen", f" - {more} - timing_s/gen")


def test_a_step_between_promise_and_baseline_is_less_than_was_promised(
    log: Path, tuned_run: Path, capsys: Capture
) -> None:
    # promised at most 0.9 s / 1.5 = 0.6 s
    log.write_text("".join(line(step, 0.7) for step in range(1, 7)))
    assert main(["watch", str(log), str(tuned_run), "--once"]) == 3
    assert "`step_time_s` is 0.7 (median of the last 5 steps), above 0.6" in capsys.readouterr().out


def test_a_run_folder_and_a_real_session_agree_on_the_files(
    job_file: Callable[[str], str], log: Path, capsys: Capture
) -> None:
    assert main(["tune", job_file("")]) == 0
    (folder,) = Path("runs").glob("tiny-*")
    slow(log)
    assert main(["watch", str(log), str(folder), "--once"]) == 3
    assert "do: profile and tune again" in capsys.readouterr().out


def test_without_a_run_folder_only_health_and_stalls_are_watched(log: Path, capsys: Capture) -> None:
    slow(log)
    assert main(["watch", str(log), "--once"]) == 0
    assert "health and stalls alone" in capsys.readouterr().err
    with log.open("a") as file:
        file.write(line(12, 1.0).replace("grad_norm:0.3", "grad_norm:nan"))
    assert main(["watch", str(log), "--once"]) == 3
    assert "the training is sick" in capsys.readouterr().out


def test_a_silent_log_is_an_alarm_and_one_dated_in_the_future_a_note(log: Path, capsys: Capture) -> None:
    changed_s = log.stat().st_mtime
    os.utime(log, (changed_s - 4000, changed_s - 4000))
    assert main(["watch", str(log), "--once", "--json"]) == 3
    (alarm,) = json.loads(capsys.readouterr().out)["alarms"]
    assert (alarm["kind"], alarm["since_step"]) == ("stall", 6)
    os.utime(log, (changed_s + 9e6, changed_s + 9e6))
    assert main(["watch", str(log), "--once"]) == 0
    assert "dated in the future" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        (["RUN"], 2, "0 logs"),
        (["RUN", "RUN", "train.log"], 2, "2 run folders"),
        (["-"], 2, "standard input cannot be followed"),
        (["train.log", "--every", "0"], 2, "`--every` is a time"),
        (["train.log", "--stall", "nan", "--once"], 2, "`--stall` is a time"),
        (["nowhere.log", "--once"], 1, "nowhere.log"),
        (["poem.log", "--once"], 1, "nothing in the input was recognised"),
    ],
)
def test_a_wrong_call_says_so(
    argv: list[str], code: int, said: str, log: Path, tuned_run: Path, capsys: Capture
) -> None:
    Path("poem.log").write_text("a rose is a rose\n")
    assert main(["watch", *(str(tuned_run) if word == "RUN" else word for word in argv)]) == code
    assert said in capsys.readouterr().err


def test_a_session_without_decision_cannot_be_held_against(log: Path, tuned_run: Path, capsys: Capture) -> None:
    (tuned_run / "decision.json").unlink()
    assert main(["watch", str(log), str(tuned_run), "--once"]) == 1
    assert "holds no decision to watch" in capsys.readouterr().err


def test_following_ends_at_the_first_alarm(log: Path, tuned_run: Path, capsys: Capture) -> None:
    clock = Clock(lambda: None, lambda: slow(log, count=1), lambda: slow(log, first=8, count=4))
    assert followed(clock, str(log), str(tuned_run)) == 3
    told = capsys.readouterr()
    assert "7 steps, the last is 7" in told.err
    assert "since step 7" in told.out


def test_a_rotated_log_is_followed_and_judged_by_its_own_steps(log: Path, tuned_run: Path, capsys: Capture) -> None:
    def rotate() -> None:
        log.rename("train.1")
        log.write_text(line(7, 900.0))

    clock = Clock(rotate, lambda: slow(log, first=8, count=3))
    assert followed(clock, str(log), str(tuned_run)) == 3
    told = capsys.readouterr()
    assert "was rotated" in told.err
    assert "since step 7" in told.out


def test_a_log_that_is_gone_is_waited_for_and_found_again(log: Path, tuned_run: Path, capsys: Capture) -> None:
    def back() -> None:
        log.write_text("".join(line(step, 900.0) for step in range(1, 5)))

    assert followed(Clock(log.unlink, lambda: None, back), str(log), str(tuned_run)) == 3
    told = capsys.readouterr()
    assert "is gone; it is waited for" in told.err
    assert "since step 1" in told.out


def test_a_log_that_stops_growing_is_silent_by_a_clock_that_does_not_jump(log: Path, capsys: Capture) -> None:
    clock = Clock()
    assert followed(clock, str(log)) == 3
    # 300 s are allowed, looks are 30 s apart: the first that is later is at 330 s
    assert clock.now == 1330
    assert "nothing new for 330 s, allowed 300 s" in capsys.readouterr().out


def test_files_shrink_grow_and_age() -> None:
    path = Path("a.log")
    before, grown = FileState(inode=1, size=10, changed_s=5.0), FileState(inode=1, size=20, changed_s=6.0)
    assert happened({path: before}, {path: grown}) == []
    assert "begins again" in happened({path: grown}, {path: before})[0]
    assert age_s({path: before}, 7.0) == 2.0
    assert age_s({path: before}, 4.0) != age_s({path: before}, 4.0)  # NaN


def test_a_training_of_our_own_is_held_against_its_session(tuned_run: Path, capsys: Capture) -> None:
    folder = Path("own")
    folder.mkdir()
    steps = tuple(
        TrainedStep(step=n, step_time_s=0.2, reward_mean=0.5, entropy=1.0, mismatch_k3=5.0, lag_max=0) for n in range(4)
    )
    (folder / "training.json").write_text(Training(job_name="own", steps=steps).model_dump_json())
    assert main(["watch", str(folder), str(tuned_run), "--once", "--stall", "1e9"]) == 3
    out = capsys.readouterr().out
    assert "since step 0: `mismatch_k3` is 5" in out
    assert "do: return to the baseline configuration" in out
    assert "the baseline: layout=padded" in out
