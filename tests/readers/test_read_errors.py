from pathlib import Path

import pytest
from reader_logs import FIXTURES

from steptune.core.errors import ReadError
from steptune.readers.read import detect, read_profile, read_steps


@pytest.mark.parametrize(
    ("name", "found"),
    [("verl_cut_before_timings.txt", "1 steps without one (step 19)"), ("verl_validation_then_cut.txt", "step 0, 1")],
)
def test_a_log_without_step_time_says_which_steps_it_holds(name: str, found: str) -> None:
    with pytest.raises(ReadError, match="hint: the step line may be cut") as caught:
        read_profile([FIXTURES / name])
    assert found in str(caught.value)


def test_a_configuration_alone_is_no_profile(tmp_path: Path) -> None:
    path = tmp_path / "run.sh"
    path.write_text("python3 -m verl.trainer.main_ppo \\\n    actor_rollout_ref.rollout.n=8\n")
    with pytest.raises(ReadError, match="no step at all"):
        read_profile([path])


@pytest.mark.parametrize("text", ["", "hello\n", '{"loss": 1.0}\n'])
def test_an_unknown_text_names_the_frameworks_that_can_be_read(tmp_path: Path, text: str) -> None:
    path = tmp_path / "run.log"
    path.write_text(text)
    with pytest.raises(ReadError, match="verl, nemo_rl"):
        read_profile([path])
    with pytest.raises(ReadError, match="verl, nemo_rl"):
        detect(text)
    with pytest.raises(ReadError, match="verl, nemo_rl"):
        list(read_steps(text.splitlines(keepends=True)))


def test_no_path_at_all_is_a_read_error() -> None:
    with pytest.raises(ReadError, match="got no file"):
        read_profile([])


def test_a_missing_file_and_a_folder_are_read_errors(tmp_path: Path) -> None:
    for path in (tmp_path / "none.log", tmp_path):
        with pytest.raises(ReadError, match="cannot be read"):
            read_profile([path])


def test_logs_of_two_frameworks_are_not_one_job() -> None:
    with pytest.raises(ReadError, match="must be of one framework"):
        read_profile([FIXTURES / "verl_sync.txt", FIXTURES / "nemo_rl_sync.txt"])


def test_bytes_that_are_no_text_are_a_read_error(tmp_path: Path) -> None:
    path = tmp_path / "run.bin"
    path.write_bytes(bytes(range(256)) * 20)
    with pytest.raises(ReadError):
        read_profile([path])


def test_frameworks_are_told_apart() -> None:
    assert detect((FIXTURES / "verl_fully_async.txt").read_text()) == "verl"
    assert detect((FIXTURES / "nemo_rl_sync.txt").read_text()) == "nemo_rl"


def test_a_configuration_file_beside_the_log_adds_its_facts(tmp_path: Path) -> None:
    config = tmp_path / "run.sh"
    config.write_text("    trainer.n_gpus_per_node=4 trainer.nnodes=2 \\\n")
    trainer = read_profile([config, FIXTURES / "verl_sync_wrapped.txt"]).roles[0]
    assert trainer.num_devices == 8
