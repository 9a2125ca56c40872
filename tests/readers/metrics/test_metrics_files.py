import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
from event_files import events

from steptune.core.paste import Paste, Series
from steptune.readers.read_paste import read_paste

VERL = [
    {"timing_s/step": 40.0 + n, "timing_s/gen": 30.0, "critic/score/mean": 0.25, "perf/mfu/actor": 1.5}
    for n in range(6)
]
NEMO = {
    "timing/train/total_step_time": 66.55,
    "timing/train/exposed_generation": 32.52,
    "train/reward": 0.35,
    "train/truncation_rate": 0.25,
}


def paste_of(tmp_path: Path, content: str | bytes, name: str) -> Paste:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_paste([path])


def series(paste: Paste, name: str) -> Series:
    found = paste.get_series(name)
    assert found is not None
    return found


def assert_is_the_verl_run(paste: Paste, lines: Sequence[int]) -> None:
    assert (paste.framework, paste.num_steps_seen) == ("verl", 6)
    times = series(paste, "step_time")
    assert [(p.step, p.value) for p in times.points] == [(n + 1, 40.0 + n) for n in range(6)]
    assert [p.line for p in times.points] == list(lines)
    assert paste.profile is not None
    # steps 1 and 2 are warm-up: (42 + 43 + 44 + 45) / 4
    assert paste.profile.step_time.value == pytest.approx(43.5)
    assert paste.profile.busy("rollout") == pytest.approx(30.0)
    assert series(paste, "mfu").finite() == []


def test_verls_own_jsonl_reads_like_its_console(tmp_path: Path) -> None:
    text = "".join(json.dumps({"step": n + 1, "data": {**row, "val": None}}) + "\n" for n, row in enumerate(VERL))
    assert_is_the_verl_run(paste_of(tmp_path, text, "metrics.jsonl"), range(1, 7))


def test_flat_jsonl_under_any_name_is_told_by_its_content(tmp_path: Path) -> None:
    text = "".join(json.dumps({"_step": n + 1, "_timestamp": 1.7e9, **row}) + "\n" for n, row in enumerate(VERL))
    assert_is_the_verl_run(paste_of(tmp_path, text, "whatever"), range(1, 7))


def test_a_broken_line_of_jsonl_costs_only_itself(tmp_path: Path) -> None:
    lines = [json.dumps({"step": n + 1, **row}) for n, row in enumerate(VERL)]
    text = "\n".join([*lines[:3], lines[3][:40], "\0\0", "{", "[]", *lines[3:]]) + "\n"
    assert_is_the_verl_run(paste_of(tmp_path, text, "m.jsonl"), [1, 2, 3, 8, 9, 10])


def test_a_wandb_history_and_a_trainer_state_are_lists_inside_json(tmp_path: Path) -> None:
    rows = [{"_step": n + 1, **row} for n, row in enumerate(VERL)]
    assert_is_the_verl_run(paste_of(tmp_path, json.dumps(rows), "history.json"), range(1, 7))
    assert_is_the_verl_run(paste_of(tmp_path, json.dumps({"history": rows}), "export.json"), range(1, 7))
    state = {"global_step": 6, "log_history": [{"step": n + 1, **row} for n, row in enumerate(VERL)]}
    assert_is_the_verl_run(paste_of(tmp_path, json.dumps(state), "trainer_state.json"), range(1, 7))


def test_a_wandb_csv_loses_its_run_names_and_its_spread_columns(tmp_path: Path) -> None:
    keys = list(VERL[0])
    header = ",".join(f'"run-a - {key}","run-a - {key}__MIN"' for key in keys)
    rows = [f"{n + 1}," + ",".join(f"{row[key]},0" for key in keys) for n, row in enumerate(VERL)]
    assert_is_the_verl_run(paste_of(tmp_path, "\n".join([f'"Step",{header}', *rows]) + "\n", "e.csv"), range(2, 8))


@pytest.mark.parametrize("as_tensors", [False, True])
def test_tensorboard_events_of_one_step_become_one_step(tmp_path: Path, *, as_tensors: bool) -> None:
    scalars = [(n + 1, key, value) for n, row in enumerate(VERL) for key, value in row.items()]
    paste = paste_of(tmp_path, events(scalars, as_tensors=as_tensors), "events.out.tfevents.1")
    # the first event holds the version; four scalars per step follow, the step time first
    assert_is_the_verl_run(paste, range(2, 26, 4))


def test_half_an_event_at_the_end_is_dropped(tmp_path: Path) -> None:
    scalars = [(n + 1, key, value) for n, row in enumerate(VERL) for key, value in row.items()]
    whole = events([*scalars, (7, "timing_s/step", 99.0)])
    for cut in range(1, 30):
        assert paste_of(tmp_path, whole[:-cut], "events.out.tfevents.1").num_steps_seen == 6


def test_floats_of_32_bits_keep_the_digits_they_have(tmp_path: Path) -> None:
    paste = paste_of(tmp_path, events([(1, "timing_s/gen", 21.47)]), "events.out.tfevents.1")
    assert series(paste, "timing_s/gen").points[0].value == 21.47


def test_of_a_trackio_database_the_last_run_is_read(tmp_path: Path) -> None:
    path = tmp_path / "project.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE metrics (id INTEGER PRIMARY KEY, run_name TEXT, step INTEGER, metrics TEXT)")
        old = [("old", 1, json.dumps({"timing_s/step": 999.0}))]
        new = [("new", n + 1, json.dumps(row)) for n, row in enumerate(VERL)]
        database.executemany("INSERT INTO metrics (run_name, step, metrics) VALUES (?, ?, ?)", [*old, *new])
        database.commit()
    assert_is_the_verl_run(read_paste([path]), range(2, 8))


def test_another_database_and_a_broken_one_are_empty_pastes(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE users (id INTEGER)")
        database.commit()
    assert read_paste([path]).series == ()
    assert paste_of(tmp_path, b"SQLite format 3\0" + b"x" * 200, "broken.db").series == ()


def test_a_loggers_keys_of_nemo_rl_are_its_consoles(tmp_path: Path) -> None:
    text = "".join(json.dumps({"_step": n, **NEMO}) + "\n" for n in range(3, 7))
    paste = paste_of(tmp_path, text, "wandb.jsonl")
    assert (paste.framework, series(paste, "reward").finite()) == ("nemo_rl", [0.35] * 4)
    assert paste.profile is not None
    assert (paste.profile.schedule, paste.profile.step_time.value) == ("async", pytest.approx(66.55))
    assert paste.profile.roles[0].wait_s() == pytest.approx(32.52)
    assert (paste.profile.health.truncated_frac, series(paste, "clipped_frac").finite()) == (0.25, [0.25] * 4)


def test_nan_stays_nan_and_null_is_absent(tmp_path: Path) -> None:
    text = (
        '{"step": 1, "timing_s/step": 4.0, "actor/grad_norm": NaN, "actor/kl_loss": null, "critic/score/mean": "0.5"}\n'
    )
    paste = paste_of(tmp_path, text, "m.jsonl")
    assert series(paste, "grad_norm").points[0].value != series(paste, "grad_norm").points[0].value
    assert paste.get_series("kl_ref") is None
    assert series(paste, "reward").finite() == [0.5]


def test_a_json_configuration_is_no_metrics_file(tmp_path: Path) -> None:
    paste = paste_of(tmp_path, '{"grpo": {"num_prompts_per_step": 32}, "policy": {"lr": 1e-6}}\n', "config.json")
    assert (paste.num_steps_seen, paste.series) == (0, ())


def test_a_folder_stands_for_the_files_in_it(tmp_path: Path) -> None:
    run = tmp_path / "run" / "tensorboard"
    run.mkdir(parents=True)
    scalars = [(n + 1, key, value) for n, row in enumerate(VERL) for key, value in row.items()]
    (run / "events.out.tfevents.7").write_bytes(events(scalars))
    (tmp_path / "run" / "launch.sh").write_text("python3 -m verl.trainer.main_ppo \\\n  data.train_batch_size=64\n")
    (tmp_path / "run" / "model.safetensors").write_bytes(b"timing_s/step:1 - a/b:1\n")
    (tmp_path / "run" / ".cache").mkdir()
    paste = read_paste([tmp_path / "run"])
    assert_is_the_verl_run(paste, range(2, 26, 4))
    assert [Path(path).name for path in paste.paths] == ["launch.sh", "events.out.tfevents.7"]
    assert paste.profile is not None
    assert paste.profile.work.prompts_per_step == 64
