from pathlib import Path

import pytest

from steptune.core.phase import Role
from steptune.readers.read_paste import read_paste

CONFIG = "actor_rollout_ref.rollout.n=8\nactor_rollout_ref.actor.ppo_mini_batch_size=64\n\n"


def write(tmp_path: Path, text: str) -> list[Path]:
    path = tmp_path / "post.md"
    path.write_text(text)
    return [path]


def test_durations_of_a_markdown_table_make_a_profile(tmp_path: Path) -> None:
    rows = ("| phase | mean | share |", "|---|---|---|", "| `gen` | 2m10s | 65% |", "| update_actor | 55 s | |")
    table = "\n".join([*rows, "| step | 3m20s | |", ""])
    profile = read_paste(write(tmp_path, CONFIG + table)).profile
    assert profile is not None
    trainer = profile.role(Role.TRAINER)
    assert trainer is not None
    # 3 min 20 s, of which generation 2 min 10 s and training 55 s: 15 s are nobody's
    assert (profile.step_time.value, profile.busy("rollout"), trainer.busy_s()) == (200, 130, 55)
    assert trainer.unattributed_s() == pytest.approx(15)
    assert trainer.phases[0].origin is not None


def test_plain_numbers_count_only_under_a_heading_of_seconds(tmp_path: Path) -> None:
    rows = "|---|---|\n| gen | 130 |\n| update_actor | 55 |\n| total | 1,200 |\n"
    profile = read_paste(write(tmp_path, CONFIG + "| phase | time (s) |\n" + rows)).profile
    assert profile is not None
    assert profile.step_time.value == 1200
    assert read_paste(write(tmp_path, CONFIG + "| phase | share |\n" + rows)).profile is None


def test_a_table_without_the_whole_step_is_no_profile(tmp_path: Path) -> None:
    assert read_paste(write(tmp_path, CONFIG + "| phase | s |\n| gen | 130 s |\n| adv | 5 s |\n")).profile is None


def test_a_table_never_overrules_a_timed_step(tmp_path: Path) -> None:
    step = "step:7 - timing_s/gen:40.0 - timing_s/step:80.0 - a/b:1\nend\n"
    profile = read_paste(write(tmp_path, step + "\n| gen | 130 s |\n| step | 200 s |\n")).profile
    assert profile is not None
    assert (profile.step_time.value, profile.num_steps) == (80.0, 1)
