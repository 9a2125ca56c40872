"""Records with JSON's quotes, whole or cut, of runs with reward and without. Values are from public issues."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from steptune.core.paste import Paste
from steptune.readers.read_paste import read_paste

# https://github.com/modelscope/ms-swift/issues/5890
SWIFT = [
    {"loss": 1e-08, "grad_norm": 0.03865505, "reward": 0.65625, "frac_reward_zero_std": 0.625}
    | {"completions/mean_length": 2362.40625, "completions/clipped_ratio": 0.75, "kl": 0.0}
    | {"global_step/max_steps": "2/4389", "elapsed_time": "6m 50s", "train_speed(iter/s)": 0.004878},
    {"loss": 4e-08, "grad_norm": 0.03032537, "reward": 0.78125, "frac_reward_zero_std": 0.875}
    | {"completions/mean_length": 2261.5, "completions/clipped_ratio": 0.875, "kl": 4.328e-05}
    | {"global_step/max_steps": "3/4389", "elapsed_time": "9m 1s", "train_speed(iter/s)": 0.005},
]
# https://github.com/modelscope/ms-swift/issues/4146, a preference run
PREFERENCES = [
    {"loss": 0.21460216, "rewards/chosen": 4.28125, "rewards/rejected": -4.25, "logps/chosen": -195.0, "step": 45},
    {"loss": 0.24059042, "rewards/chosen": 4.3125, "rewards/rejected": -4.1875, "logps/chosen": -193.0, "step": 46},
]


def lines_of(rows: Sequence[Mapping[str, object]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def read(tmp_path: Path, text: str) -> Paste:
    path = tmp_path / "logging.jsonl"
    path.write_text(text, encoding="utf-8")
    return read_paste([path])


def values(paste: Paste, name: str) -> list[tuple[int | None, float]]:
    series = paste.get_series(name)
    return [] if series is None else [(p.step, p.value) for p in series.points]


def test_a_file_that_counts_steps_as_a_share_of_all_is_read(tmp_path: Path) -> None:
    paste = read(tmp_path, lines_of(SWIFT))
    assert paste.framework == "trl"
    assert values(paste, "clipped_frac") == [(2, 0.75), (3, 0.875)]
    assert values(paste, "reward") == [(2, 0.65625), (3, 0.78125)]


@pytest.mark.parametrize("end", ['"completions/clipped_ratio": 0.87', '"completions/mean_length": 2261.5, "compl'])
def test_a_last_record_that_is_cut_keeps_its_whole_pairs(tmp_path: Path, end: str) -> None:
    text = lines_of(SWIFT)
    paste = read(tmp_path, text[: text.rindex(end) + len(end)])
    assert [value for _, value in values(paste, "zero_std_frac")] == [0.625, 0.875]
    assert [value for _, value in values(paste, "clipped_frac")] == [0.75]


def test_json_records_between_other_output_are_steps(tmp_path: Path) -> None:
    first, second = lines_of(SWIFT).splitlines()
    paste = read(tmp_path, f"is this log normal?\n{first}\nsome other line\n{second}\nthank you\n")
    assert paste.framework == "trl"
    assert values(paste, "clipped_frac") == [(2, 0.75), (3, 0.875)]
    assert values(paste, "completion_mean") == [(2, 2362.40625), (3, 2261.5)]


def test_nan_is_kept_of_json_too(tmp_path: Path) -> None:
    # https://github.com/modelscope/ms-swift/issues/4465
    row = '{"loss": -0.03745745, "grad_norm": 0.00613374, "completions/clipped_ratio": 0.175, "kl": NaN, "epoch": 0.4}'
    paste = read(tmp_path, f"the log:\n{row}\n")
    assert [str(value) for _, value in values(paste, "kl_ref")] == ["nan"]
    assert [value for _, value in values(paste, "clipped_frac")] == [0.175]


def test_a_supervised_run_has_loss_and_entropy_and_no_reward(tmp_path: Path) -> None:
    rows = [
        {"step": 10 * n, "loss": 2.0 - n / 10, "entropy": 1.5, "mean_token_accuracy": 0.62, "num_tokens": 6262.0 * n}
        for n in range(1, 4)
    ]
    paste = read(tmp_path, lines_of(rows))
    assert paste.framework == "trl"
    assert values(paste, "loss") == [(10, 1.9), (20, 1.8), (30, 1.7)]
    assert values(paste, "entropy") == [(10, 1.5), (20, 1.5), (30, 1.5)]
    assert (values(paste, "reward"), paste.profile) == ([], None)


def test_a_preference_run_has_no_reward_series(tmp_path: Path) -> None:
    paste = read(tmp_path, lines_of(PREFERENCES))
    assert (paste.framework, values(paste, "reward")) == ("trl", [])
    assert values(paste, "rewards/chosen") == [(45, 4.28125), (46, 4.3125)]


def test_trainer_state_of_a_supervised_run_is_read(tmp_path: Path) -> None:
    state = {"log_history": [{"step": 1, "loss": 1.5, "learning_rate": 0.0002, "mean_token_accuracy": 0.62}]}
    assert values(read(tmp_path, json.dumps(state)), "loss") == [(1, 1.5)]


def test_the_speed_of_a_run_is_its_mean_step_under_both_names(tmp_path: Path) -> None:
    older = values(read(tmp_path, lines_of(SWIFT)), "step_time")
    assert older == [(2, pytest.approx(205.0, abs=0.1)), (3, pytest.approx(200.0))]
    # https://github.com/modelscope/ms-swift/issues/9261
    rows = [
        {"loss": 0.0, "frac_reward_zero_std": 1.0, "global_step/max_steps": "1/10000", "train_speed(s/it)": 35.870414},
        {"loss": 0.0, "frac_reward_zero_std": 1.0, "global_step/max_steps": "2/10000", "train_speed(s/it)": 19.529944},
    ]
    paste = read(tmp_path, lines_of(rows))
    assert values(paste, "step_time") == [(1, 35.870414), (2, 19.529944)]
    assert paste.profile is None
