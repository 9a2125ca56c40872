from pathlib import Path

import pytest
from reader_logs import FIXTURES

from steptune.core.errors import ReadError
from steptune.core.phase import Role
from steptune.readers.read_paste import read_paste


def write(tmp_path: Path, text: str, name: str = "run.log") -> list[Path]:
    path = tmp_path / name
    path.write_text(text)
    return [path]


@pytest.mark.parametrize("name", ["verl_cut_before_timings.txt", "verl_validation_then_cut.txt"])
def test_a_log_without_step_time_gives_series_but_no_profile(name: str) -> None:
    paste = read_paste([FIXTURES / name])
    assert (paste.framework, paste.profile) == ("verl", None)
    assert paste.get_series("entropy") is not None
    assert paste.get_series("step_time") is None


def test_a_configuration_alone_tells_its_framework_and_is_no_profile(tmp_path: Path) -> None:
    text = "python3 -m verl.trainer.main_ppo \\\n    actor_rollout_ref.rollout.n=8\n"
    paste = read_paste(write(tmp_path, text, "run.sh"))
    assert (paste.framework, paste.profile, paste.num_steps_seen) == ("verl", None, 0)
    assert [(s.key, s.value) for s in paste.settings] == [("actor_rollout_ref.rollout.n", 8)]


@pytest.mark.parametrize("text", ["", "hello\n", '{"temperature": 1.0}\n'])
def test_an_unknown_text_is_an_empty_paste(tmp_path: Path, text: str) -> None:
    paste = read_paste(write(tmp_path, text))
    assert (paste.framework, paste.profile, paste.series, paste.excerpts) == (None, None, (), ())


def test_no_path_at_all_is_an_empty_paste() -> None:
    assert read_paste([]).paths == ()


def test_a_missing_file_is_a_read_error(tmp_path: Path) -> None:
    with pytest.raises(ReadError, match="cannot be read"):
        read_paste([tmp_path / "none.log"])


def test_of_two_frameworks_the_one_with_more_evidence_is_read() -> None:
    paste = read_paste([FIXTURES / "verl_sync.txt", FIXTURES / "nemo_rl_async.txt"])
    assert paste.framework == "verl"


def test_bytes_that_are_no_text_are_no_error(tmp_path: Path) -> None:
    path = tmp_path / "run.bin"
    path.write_bytes(bytes(range(256)) * 20)
    assert read_paste([path]).framework is None


def test_a_configuration_file_beside_the_log_adds_its_facts(tmp_path: Path) -> None:
    config = write(tmp_path, "    trainer.n_gpus_per_node=4 trainer.nnodes=2 \\\n", "run.sh")
    profile = read_paste([*config, FIXTURES / "verl_sync_wrapped.txt"]).profile
    assert profile is not None
    trainer = profile.role(Role.TRAINER)
    assert trainer is not None
    assert trainer.num_devices == 8


def test_utf16_text_reads_as_utf8(tmp_path: Path) -> None:
    text = (FIXTURES / "verl_sync.txt").read_text()
    path = tmp_path / "run.log"
    for encoding in ("utf-16", "utf-16-le", "utf-16-be", "utf-8-sig"):
        path.write_bytes(text.encode(encoding))
        profile = read_paste([path]).profile
        assert profile is not None
        assert profile.step_time.value == pytest.approx(1268.4882453735918)
