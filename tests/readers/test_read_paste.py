import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from reader_logs import FIXTURES

from steptune.core.errors import MixedJobsError, ReadError
from steptune.core.paste import effective
from steptune.core.phase import Role
from steptune.readers.frameworks import framework
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


def test_logs_of_two_frameworks_are_two_jobs_and_both_are_named() -> None:
    with pytest.raises(MixedJobsError, match=r"verl_sync.txt` of verl and .*nemo_rl_async.txt` of nemo_rl"):
        read_paste([FIXTURES / "verl_sync.txt", FIXTURES / "nemo_rl_async.txt"])


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


CHILD = "defaults: [base]\ngrpo:\n  num_prompts_per_step: 64\n"
BASE = "grpo:\n  num_prompts_per_step: 32\n  num_generations_per_prompt: 16\n"


@pytest.mark.parametrize("names", [["child.yaml"], ["child.yaml", "base.yaml"], ["base.yaml", "child.yaml"]])
def test_a_parent_on_disk_sets_what_its_child_does_not(tmp_path: Path, names: list[str]) -> None:
    write(tmp_path, CHILD, "child.yaml")
    write(tmp_path, BASE, "base.yaml")
    paste = read_paste([tmp_path / name for name in names])
    assert {key: s.value for key, s in effective(paste.settings).items()} == {
        "grpo.num_prompts_per_step": 64,
        "grpo.num_generations_per_prompt": 16,
    }
    assert paste.notes == ()


def test_of_parents_that_name_each_other_the_first_stays(tmp_path: Path) -> None:
    paths = [*write(tmp_path, "defaults: [b]\nx:\n  y: 1\n", "a.yaml")]
    paths += write(tmp_path, "defaults: [a]\nx:\n  y: 2\n", "b.yaml")
    assert effective(read_paste(paths).settings)["x.y"].value == 1


def test_a_sourced_script_on_disk_is_followed_once(tmp_path: Path) -> None:
    paths = write(
        tmp_path, "source ./common.sh\npython3 -m verl.trainer.main_ppo actor_rollout_ref.rollout.n=$N\n", "run.sh"
    )
    paths += write(tmp_path, "export N=8\n", "common.sh")
    for handed_in in (paths[:1], paths):
        settings = read_paste(handed_in).settings
        assert effective(settings)["actor_rollout_ref.rollout.n"].value == 8
        assert [s.key for s in settings].count("env.N") == 1


def test_a_log_that_is_called_yaml_is_no_configuration(tmp_path: Path) -> None:
    text = (FIXTURES / "verl_sync.txt").read_text()
    named, plain = (read_paste(write(tmp_path, text, name)).settings for name in ("x.yaml", "x.log"))
    assert [(s.key, s.value, s.origin.line) for s in named] == [(s.key, s.value, s.origin.line) for s in plain]


def test_a_reader_that_fails_costs_the_profile_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("no devices")

    broken = replace(framework("verl"), to_reading=fail)
    monkeypatch.setattr("steptune.readers.read_paste.framework", lambda _: broken)
    paste = read_paste([FIXTURES / "verl_sync.txt"])
    assert (paste.framework, paste.profile) == ("verl", None)
    assert paste.get_series("step_time") is not None
    [note] = [note.text for note in paste.notes if "fail" in note.text]
    assert "verl" in note
    assert "ZeroDivisionError: no devices" in note


def test_utf16_text_reads_as_utf8(tmp_path: Path) -> None:
    text = (FIXTURES / "verl_sync.txt").read_text()
    path = tmp_path / "run.log"
    for encoding in ("utf-16", "utf-16-le", "utf-16-be", "utf-8-sig"):
        path.write_bytes(text.encode(encoding))
        profile = read_paste([path]).profile
        assert profile is not None
        assert profile.step_time.value == pytest.approx(1268.4882453735918)


def step_lines(numbers: range) -> str:
    return "".join(f"step:{n} - timing_s/gen:3.0 - timing_s/step:{n}.5 - a/b:1\n" for n in numbers)


def test_of_a_long_log_the_first_and_the_last_steps_are_kept_and_it_says_so(tmp_path: Path) -> None:
    paste = read_paste(write(tmp_path, step_lines(range(1, 701)) + "end\n"))
    times = paste.get_series("step_time")
    assert times is not None
    # 4 first and 512 last of 700
    assert [p.step for p in times.points] == [1, 2, 3, 4, *range(189, 701)]
    assert (paste.num_steps_seen, paste.num_lines) == (700, 701)
    (note,) = [note for note in paste.notes if note.is_about_input]
    assert "of 700 steps the first 4 were kept" in note.text
    assert "the last 512" in note.text
    assert "the 184 between" in note.text


def test_steps_that_start_again_are_noted_with_their_line(tmp_path: Path) -> None:
    paste = read_paste(write(tmp_path, step_lines(range(1, 5)) + step_lines(range(2, 4)) + "end\n"))
    [note] = [note for note in paste.notes if "start again" in note.text]
    assert note.origin is not None
    assert note.origin.line == 5
    assert not any("start again" in note.text for note in read_paste(write(tmp_path, step_lines(range(1, 5)))).notes)


def test_impossible_values_are_marked_and_nan_is_kept(tmp_path: Path) -> None:
    line = "step:7 - perf/mfu/actor:1.018 - response_length/clip_ratio:1.5 - actor/grad_norm:nan - actor/entropy:0.3"
    paste = read_paste(write(tmp_path, f"{line} - timing_s/step:80.0 - a/b:1\nend\n"))
    statuses = {s.name: s.points[0].status.value for s in paste.series}
    assert (statuses["mfu"], statuses["clipped_frac"], statuses["entropy"]) == (
        "implausible",
        "implausible",
        "measured",
    )
    norm = paste.get_series("grad_norm")
    assert norm is not None
    assert (len(norm.points), norm.finite()) == (1, [])


def test_what_is_far_from_the_ends_of_a_big_log_is_still_found(tmp_path: Path) -> None:
    noise = "(WorkerDict pid=1) INFO 09-15 14:29:07 request 1234 finished with 200 OK\n" * 20_000
    middle = step_lines(range(1, 4)) + "gpu_worker.py Sleep mode freed 4 GiB, 7.5 GiB memory is still in use\n"
    paste = read_paste(write(tmp_path, noise + middle + noise + "torch.OutOfMemoryError: CUDA out of memory.\n"))
    asleep = paste.get_series("memory_after_sleep_gib")
    assert asleep is not None
    assert (paste.framework, paste.num_steps_seen, asleep.finite()) == ("verl", 3, [7.5])
    assert asleep.points[0].line == 20_004
    assert [e.origin.line for e in paste.excerpts if e.kind == "oom"] == [40_005]
    assert paste.num_lines == 40_005


def test_reading_imports_neither_torch_nor_numpy() -> None:
    code = (
        "import sys; from pathlib import Path; from steptune.readers.read_paste import read_paste; "
        "read_paste([Path(sys.argv[1])]); print('torch' in sys.modules, 'numpy' in sys.modules)"
    )
    command = [sys.executable, "-c", code, str(FIXTURES / "verl_sync.txt")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_a_step_that_two_files_tell_is_one_observation(tmp_path: Path) -> None:
    log = write(tmp_path, step_lines(range(3, 9)) + "end\n")
    rows = [f'{{"step": {n}, "timing_s/step": {n}.5004, "timing_s/gen": 3.0}}\n' for n in range(3, 9)]
    metrics = write(tmp_path, "".join(rows), "metrics.jsonl")
    both, alone = read_paste([*log, *metrics]).profile, read_paste(log).profile
    assert both is not None
    assert alone is not None
    assert both.step_time == alone.step_time
    other = write(tmp_path, "".join(rows).replace("4,", "9,"), "other.jsonl")
    two = read_paste([*log, *other]).profile
    assert two is not None
    assert two.num_steps == 7
    assert read_paste([*log, *metrics]).num_steps_seen == 6


def test_an_out_of_memory_text_far_down_tells_the_cards_memory(tmp_path: Path) -> None:
    noise = "(WorkerDict pid=1) INFO 09-15 14:29:07 request 1234 finished with 200 OK\n" * 30_000
    text = "CUDA out of memory. Tried to allocate 2.32 GiB. GPU 0 has a total capacity of 79.15 GiB\n"
    paste = read_paste(write(tmp_path, noise + text + noise))
    assert paste.devices is not None
    assert paste.devices.memory_gib == 79.15


def test_a_named_card_bounds_what_memory_can_be_true(tmp_path: Path) -> None:
    line = "# 8x H100\nstep:7 - perf/max_memory_allocated_gb:{} - timing_s/step:80.0 - a/b:1\nend\n"
    for value, finite in ((67.0, [67.0]), (97.0, [])):
        memory = read_paste(write(tmp_path, line.format(value))).get_series("memory_allocated_gib")
        assert memory is not None
        assert memory.finite() == finite


def test_arguments_that_a_logger_prints_are_settings(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text(
        "[INFO:swift] args: RLHFArguments(rlhf_type='grpo', num_generations=8, vllm_mode='server')\n"
        "2025-02-05 13:01:11 - INFO - __main__ - Training parameters GRPOConfig(\nbf16=True,\nbeta=0.04,\n)\n"
        "INFO: 10.0.0.1 - request with RolloutConfig(a=1)\n"
    )
    paste = read_paste([log])
    found = {setting.key: (setting.value, setting.origin.line) for setting in paste.settings}
    assert found == {
        "rlhf_type": ("grpo", 1),
        "num_generations": (8, 1),
        "vllm_mode": ("server", 1),
        "bf16": (True, 3),
        "beta": (0.04, 4),
    }
    assert paste.framework == "trl"
