"""Metrics as people quote them, in texts where no line is as a framework prints it."""

from pathlib import Path

import pytest

from steptune.core.paste import Paste
from steptune.core.phase import Role
from steptune.readers.read_paste import read_paste

VALUES = {"timing_s/gen": 74.02, "timing_s/update_actor": 14.3, "timing_s/step": 96.5}
SHAPES = {
    "dict": "{'timing_s/gen': 74.02, 'timing_s/update_actor': 14.3, 'timing_s/step': 96.5}\n",
    "commas": "timing_s/gen: 74.02, timing_s/update_actor: 14.3, timing_s/step: 96.5\n",
    "assigned": "timing_s/gen=74.02 timing_s/update_actor=14.3 timing_s/step=96.5\n",
    "bullets": "- `timing_s/gen`: 74.02\n- `timing_s/update_actor`: 14.3 s\n- `timing_s/step`: 96.5s\n",
    "json": '{\n  "timing_s/gen": 74.02,\n  "timing_s/update_actor": 14.3,\n  "timing_s/step": 96.5\n}\n',
    "wandb": "wandb: Run summary:\n" + "".join(f"wandb: {key} {value}\n" for key, value in VALUES.items()),
    "ray": "".join(f"(main_task pid=82052) wandb: {key:>30} {value}\n" for key, value in VALUES.items()),
    "tabs": "timing_s/gen\t74.02\ntiming_s/update_actor\t14.3\ntiming_s/step\t96.5\n",
    "table": "| key | s |\n|---|---|\n" + "".join(f"| `{key}` | {value} |\n" for key, value in VALUES.items()),
}


def read(tmp_path: Path, text: str) -> Paste:
    path = tmp_path / "post.txt"
    path.write_text(f"why is it slow?\n{text}thanks\n", encoding="utf-8")
    return read_paste([path])


def values(paste: Paste) -> dict[str, list[float]]:
    return {series.key: [point.value for point in series.points] for series in paste.series}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_shape_of_a_quote_does_not_matter(tmp_path: Path, shape: str) -> None:
    paste = read(tmp_path, SHAPES[shape])
    assert paste.framework == "verl"
    assert values(paste) == {key: [value] for key, value in VALUES.items()}
    assert paste.profile is not None
    assert (paste.profile.step_time.value, paste.profile.num_steps) == (96.5, 1)
    trainer = paste.profile.role(Role.TRAINER)
    assert trainer is not None
    assert trainer.busy_s() == 14.3


@pytest.mark.parametrize(
    ("name", "text", "step_s"),
    [
        ("skyrl", '{"timing/step": 60.5, "timing/generate": 30.0, "timing/policy_train": 20.0}\n', 60.5),
        ("skyrl", "timing/step: 60.5\ntiming/generate: 30.0\ntiming/policy_train: 20.0\n", 60.5),
        ("openrlhf", '{"timing/step_total": 58.0, "timing/generation": 30.0, "timing/ppo_train": 28.0}\n', 58.0),
        (
            "slime",
            "wandb: perf/step_time 60.0\nwandb: perf/train_wait_time 45.0\nwandb: perf/actor_train_time 12.0\n",
            60.0,
        ),
    ],
)
def test_other_frameworks_are_quoted_likewise(tmp_path: Path, name: str, text: str, step_s: float) -> None:
    paste = read(tmp_path, text)
    assert paste.framework == name
    assert paste.profile is not None
    assert paste.profile.step_time.value == step_s


@pytest.mark.parametrize(
    "text",
    [
        "timing_s/step: 96.5 -> 60.0\n",
        "timing_s/step: 60-80\n",
        "timing_s/step: 60 to 80\n",
        "timing_s/step: 96 ms\n",
        "timing_s/step: 12%\n",
        "timing_s/step: ~96\n",
        "| timing_s/step | 96.5 | 60.0 |\n",
        "timing_s/step\t96.5\t60.0\n",
        "before: timing_s/step: 96.5, after: timing_s/step: 60.0\n",
        "`timing_s/step`: 96.5\n\nand with the patch\n\n`timing_s/step` = 60.0\n",
        "'timing_s/ref': 3.0, 'timing_s/adv': 1.0, 'timing_s/old_log_prob': 3.5, 'timing_s/step': 9\n6.5\n",
    ],
)
def test_what_compares_or_states_something_else_is_no_step_time(tmp_path: Path, text: str) -> None:
    paste = read(tmp_path, f"timing_s/gen is what I mean\n{text}")
    assert paste.framework == "verl"
    assert paste.profile is None


def test_numbered_steps_are_told_apart(tmp_path: Path) -> None:
    rows = "".join(f'got {{"step": {n}, "timing_s/gen": {n}.5, "timing_s/step": {n + 30}.0}}\n' for n in (3, 4, 5))
    series = read(tmp_path, rows).get_series("step_time")
    assert series is not None
    assert [(p.step, p.value, p.line) for p in series.points] == [(3, 33.0, 2), (4, 34.0, 3), (5, 35.0, 4)]


def test_a_log_with_steps_of_its_own_is_not_read_twice(tmp_path: Path) -> None:
    paste = read(
        tmp_path, "step:3 - timing_s/gen:1.5 - timing_s/step:40 - a/b:1\nexpected 'timing_s/step': 20.0, right?\n"
    )
    assert values(paste)["timing_s/step"] == [40.0]


def test_pairs_in_backticks_with_the_step_named_last(tmp_path: Path) -> None:
    text = (
        "- `loss/avg_final_rewards = 0.125`\n- `timing/generate = 91.25s`\n- `timing/policy_train = 16.5s`\n"
        "- `trainer/global_step = 3`\n"
    )
    paste = read(tmp_path, text)
    found = {s.name: [(p.step, p.value) for p in s.points] for s in paste.series}
    assert found["reward"] == [(3, 0.125)]
    assert found["timing/generate"] == [(3, 91.25)]
    assert paste.profile is None


def test_a_number_with_a_comma_in_it_is_not_its_first_digits(tmp_path: Path) -> None:
    text = "timing_s/gen: 74.02\ntiming_s/update_actor: 1,234\ntiming_s/step: 1,234\n"
    assert values(read(tmp_path, text)) == {"timing_s/gen": [74.02]}


@pytest.mark.parametrize("step", ["step {}", "[Step {}/100]", "global step: {}", "Step #{}"])
def test_a_step_named_before_the_metrics_of_its_line_is_theirs(step: str, tmp_path: Path) -> None:
    row = "2026-01-02 10:12:14 | INFO | " + step + " | timing_s/gen={} timing_s/step=96.5\n"
    paste = read(tmp_path, row.format(12, 74.02) + row.format(13, 76.02))
    series = paste.get_series("timing_s/gen")
    assert series is not None
    assert [(point.step, point.value) for point in series.points] == [(12, 74.02), (13, 76.02)]
    assert paste.num_steps_seen == 2


@pytest.mark.parametrize("written", ["{head}, {key}: 1,234, {tail}}}\n", "{{\n {head},\n {key}: 1,234,\n {tail}\n}}\n"])
def test_in_a_record_of_a_framework_neither(tmp_path: Path, written: str) -> None:
    head, key, tail = "'perf/step_time': 412.32", "'perf/log_probs_time': ", "'perf/actor_train_time': 46.91"
    text = written.format(head=head, key=key.strip(": "), tail=tail)
    found = values(read(tmp_path, f"perf 3: {{{text}" if text.startswith("'") else text))
    assert "perf/log_probs_time" not in found
    assert (found["perf/step_time"], found["perf/actor_train_time"]) == ([412.32], [46.91])
