"""Whole steps from what a progress bar says has elapsed."""

from pathlib import Path

import pytest

from steptune.core.estimate import Source
from steptune.core.paste import Paste, ValueStatus
from steptune.readers.read_paste import read_paste

METRICS = "{'loss': 0.1, 'grad_norm': 0.2, 'completions/mean_length': 32.0, 'reward': 0.5}\n"


def bar(done: int, seconds: float, rate: str = "9.99s/it", total: int = 200) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"  1%|▏   | {done}/{total} [{minutes:02}:{rest:02}<1:00:00, {rate}]\n"


def read(tmp_path: Path, text: str) -> Paste:
    path = tmp_path / "run.log"
    path.write_text(text + METRICS, encoding="utf-8")
    return read_paste([path])


def steps_of(paste: Paste) -> list[tuple[int | None, float, ValueStatus]]:
    series = paste.get_series("step_time")
    assert series is not None
    return [(p.step, p.value, p.status) for p in series.points]


def test_a_long_bar_gives_whole_steps_and_no_phase(tmp_path: Path) -> None:
    # 4.3 s a step: after n steps the clock shows the whole seconds of 4.3 n
    paste = read(tmp_path, "".join(bar(n, 4.3 * n) for n in range(1, 82)))
    profile = paste.profile
    assert profile is not None
    assert (profile.roles, profile.num_steps) == ((), 5)
    assert profile.step_time.value == pytest.approx(4.3, abs=0.1)
    assert (profile.step_time.source, profile.step_time.low) == (Source.DERIVED, None)
    assert {status for _, _, status in steps_of(paste)} == {ValueStatus.DERIVED}


def test_the_smoothed_rate_does_not_count(tmp_path: Path) -> None:
    paste = read(tmp_path, "".join(bar(n, 4 * n, rate="400.0s/it") for n in range(1, 82)))
    assert [value for _, value, _ in steps_of(paste)] == [4.0] * 5


def test_steps_that_generate_in_turn_average_over_whole_cycles(tmp_path: Path) -> None:
    # every fourth step takes 90 s, the others 10 s: 30 s on average, though most steps take 10 s
    seconds, text = 0, ""
    for n in range(1, 82):
        seconds += 90 if n % 4 == 0 else 10
        text += bar(n, seconds)
    profile = read(tmp_path, text).profile
    assert profile is not None
    assert profile.step_time.value == 30.0


def test_an_evaluation_makes_one_span_long_and_the_median_stays(tmp_path: Path) -> None:
    paste = read(tmp_path, "".join(bar(n, 5 * n + (2000 if n > 40 else 0)) for n in range(1, 82)))
    assert paste.profile is not None
    assert paste.profile.step_time.value == 5.0
    assert max(value for _, value, _ in steps_of(paste)) > 100


def test_a_bar_that_starts_again_is_no_span(tmp_path: Path) -> None:
    text = "".join(bar(n, 5 * n) for n in (*range(1, 20), *range(1, 20)))
    assert steps_of(read(tmp_path, text)) == [(17, 5.0, ValueStatus.DERIVED)] * 2


def test_a_few_states_of_a_bar_are_no_profile(tmp_path: Path) -> None:
    paste = read(tmp_path, "".join(bar(n, 40 * n) for n in range(1, 17)))
    assert paste.profile is None
    assert {value for _, value, _ in steps_of(paste)} == {9.99}


def test_many_states_on_one_line_are_read_in_order(tmp_path: Path) -> None:
    paste = read(tmp_path, "".join(bar(n, 30 * n).rstrip("\n") for n in range(1, 82)) + "\n")
    assert paste.profile is not None
    assert paste.profile.step_time.value == 30.0


def test_a_bar_that_ended_before_any_metric_while_another_follows_counts_no_steps(tmp_path: Path) -> None:
    before = "".join(bar(n, 2 * n, total=60) for n in range(1, 61))
    steps = "".join(bar(n, 30 * n, total=500) + METRICS for n in range(1, 50))
    assert read(tmp_path, before + steps).profile is None


def test_an_evaluation_after_the_last_step_takes_nothing_back(tmp_path: Path) -> None:
    steps = "".join(bar(n, 30 * n, total=60) + METRICS for n in range(1, 61))
    profile = read(tmp_path, steps + "".join(bar(n, 2 * n, total=300) for n in range(1, 100))).profile
    assert profile is not None
    assert profile.step_time.value == 30.0


def test_metrics_that_all_come_after_the_bar_are_of_its_run(tmp_path: Path) -> None:
    profile = read(tmp_path, "".join(bar(n, 30 * n, total=60) for n in range(1, 61)) + METRICS * 60).profile
    assert profile is not None
    assert profile.step_time.value == 30.0


def one_bar(done: int, total: int, clock: str, rate: str) -> str:
    metrics = "{'loss': 0.01, 'grad_norm': 0.2, 'reward': 0.5, 'reward_std': 0.1}"
    return f" 9%|9   | {done}/{total} [{clock}<9:59:59, {rate}]\n{metrics}\n"


@pytest.mark.parametrize(
    ("done", "clock", "rate", "step_s"),
    [
        (40, "10:00", "14.20s/it", 15.0),
        (40, "10:00", "29.00s/it", 15.0),
        (40, "10:00", "31.00s/it", None),  # a resumed run, or steps that are long and short in turn
        (4, "01:00", "15.00s/it", None),  # warm-up for the most part
        (40, "00:10", "4.00it/s", None),  # too short for a clock of whole seconds
    ],
)
def test_one_state_of_a_bar_gives_the_mean_since_its_beginning_where_its_rate_agrees(
    done: int, clock: str, rate: str, step_s: float | None, tmp_path: Path
) -> None:
    path = tmp_path / "post.txt"
    path.write_text(one_bar(done, 400, clock, rate))
    profile = read_paste([path]).profile
    assert (None if profile is None else profile.step_time.value) == step_s


def test_the_dict_of_the_whole_run_tells_the_metrics_of_a_run_that_logged_none(tmp_path: Path) -> None:
    path = tmp_path / "post.txt"
    path.write_text(
        "100%|##| 8/8 [16:00<00:00, 119.57s/it]\n"
        "{'train_runtime': 961.2, 'train_steps_per_second': 0.008, 'train_loss': 0.5, 'reward': 0.75,"
        " 'reward_std': 0.1, 'completion_length': 115.5, 'epoch': 1.6}\n"
    )
    paste = read_paste([path])
    assert paste.framework == "trl"
    assert paste.profile is not None
    assert paste.profile.step_time.value == 120.0
    assert paste.profile.health.reward_mean == 0.75
    assert paste.get_series("train_loss") is None


def test_the_clock_of_a_metrics_file_gives_step_times(tmp_path: Path) -> None:
    path = tmp_path / "trainer_log.txt"
    row = '{{"current_steps": {}, "loss": 2.1, "elapsed_time": "{}:{:02}:00", "remaining_time": "1 day, 2:03:04"}}\n'
    minutes = [(n, 2 * n) for n in range(5, 85, 5)]  # two minutes a step
    path.write_text("# from the output folder\n" + "".join(row.format(n, m // 60, m % 60) for n, m in minutes))
    paste = read_paste([path])
    assert paste.profile is not None
    assert paste.profile.step_time.value == 120.0
    assert not paste.settings


def test_a_loss_that_is_no_number_is_still_a_record(tmp_path: Path) -> None:
    path = tmp_path / "post.txt"
    path.write_text(
        " 2%|1 | 19/860 [01:30<1:07:22, 4.81s/it]{'loss': nan, 'reward': -0.31, 'learning_rate': 9.8e-06}\n"
    )
    paste = read_paste([path])
    assert paste.framework == "trl"
    assert paste.profile is not None
    assert paste.profile.health.has_nan


def test_a_bar_that_may_be_over_a_data_set_gives_no_step_time(tmp_path: Path) -> None:
    path = tmp_path / "post.txt"
    path.write_text("100%|##| 500/500 [00:30<00:00, 16.60it/s]\n{'loss': 0.1, 'grad_norm': 0.2, 'reward': 0.5}\n")
    assert read_paste([path]).profile is None
    path.write_text("per_device_train_batch_size=4\nnum_generations=8\n99%|##| 99/100 [01:39<00:01, 1.00s/it]\n")
    assert read_paste([path]).profile is None
