"""Everything a user can get wrong: exit 1, and one sentence that says what, got, allowed and a hint."""

import errno
import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from steptune.cli.main import main
from steptune.core.errors import StoreError
from steptune.store.lock import session_lock

Job = Callable[[str], str]

SENTENCE = re.compile(r"^(steptune: )?(- )?.+, got .+; allowed: .+; hint: .+$", re.MULTILINE)


def complaint(argv: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Run a call that must fail with exit 1; return what it says after checking the sentence."""
    capsys.readouterr()
    assert main(argv) == 1
    text = capsys.readouterr().err
    assert "Traceback" not in text
    assert SENTENCE.search(text), text
    return text


@pytest.mark.parametrize(
    ("toml", "expected"),
    [
        ("[buget]\nmax_trials = 3", ["`buget`", "did you mean `budget`?"]),
        ("[budget]\nmax_trails = 3", ["max_trails", "did you mean `max_trials`?"]),
        ("[budget]\nmax_trials = 0", ["budget.max_trials", "got 0"]),
        ("[budget]\nwall_time_s = 0", ["budget.wall_time_s", "got 0"]),
        ("[budget]\ndevice_time_s = 0.0", ["budget.device_time_s", "got 0"]),
        ("[devices]\nnum_cores = 100000", ["devices.num_cores", "got 100000", "1 to "]),
        ('[knobs.pin]\nlayout = "packd"', ["knobs.pin.layout", "packd", "did you mean `packed`?"]),
        ("[knobs.pin]\nlayot = 1", ["knobs.pin", "layot", "did you mean `layout`?"]),
        ('[knobs]\nallow = ["layuot"]', ["knobs.allow", "layuot", "did you mean `layout`?"]),
        ("[limits]\nmemory_headroom_frac = 1.5", ["limits.memory_headroom_frac", "1.5"]),
    ],
)
def test_a_mistake_in_the_job_file_is_named(
    toml: str, expected: list[str], job_file: Job, capsys: pytest.CaptureFixture[str]
) -> None:
    text = complaint(["tune", job_file(toml)], capsys)
    for part in expected:
        assert part in text
    assert not Path("runs").exists(), "nothing is made for a job that cannot be"


def test_more_threads_than_cores_cannot_be_pinned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = tmp_path / "split.toml"
    job.write_text('name = "split"\n[devices]\nnum_cores = 1\n[knobs.pin]\nrollout_threads = 2\n')
    text = complaint(["tune", str(job)], capsys)
    assert "knobs.pin.rollout_threads" in text
    assert "got `2`; allowed: `1`" in text


def test_pins_that_break_a_limit_are_refused_before_anything_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = tmp_path / "stale.toml"
    job.write_text('name = "stale"\n[knobs.pin]\nschedule = "one_step_off"\n')
    text = complaint(["tune", str(job)], capsys)
    assert "limits.max_staleness is 0" in text
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("toml", "limit", "expected"),
    [
        ("max_mismatch_k3 = 1e-9", "limits.max_mismatch_k3", "1e-09 against 1e-06 nat"),
        ("memory_headroom_frac = 1.0", "limits.memory_headroom_frac", "a peak of 95 MiB; allowed: 0 of 9537 MiB"),
    ],
)
def test_a_limit_that_the_baseline_itself_breaks_is_named_with_what_would_hold(
    toml: str, limit: str, expected: str, job_file: Job, capsys: pytest.CaptureFixture[str]
) -> None:
    text = complaint(["tune", job_file("[limits]\n" + toml)], capsys)
    assert limit in text
    assert expected in text
    (folder,) = Path("runs").glob("tiny-*")
    assert f"the run folder is {folder}" in text
    last = json.loads((folder / "journal.jsonl").read_text().splitlines()[-1])["body"]
    assert last["kind"] == "session_ended"
    assert limit in last["why"]


def test_a_missing_job_file_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert "nowhere.toml" in complaint(["tune", "nowhere.toml"], capsys)


def test_a_job_file_that_is_no_toml_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "job.toml").write_text("name = \n")
    assert "job.toml" in complaint(["tune", "job.toml"], capsys)


def test_a_finished_session_is_not_resumed(tuned_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (tuned_run / "journal.jsonl").read_bytes()
    text = complaint(["tune", "--resume", str(tuned_run)], capsys)
    assert "the session is done, got decision ADOPT" in text
    assert "steptune report" in text
    assert (tuned_run / "journal.jsonl").read_bytes() == before


def test_a_run_folder_from_another_version_is_refused(tuned_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tuned_run / "version.json").write_text('{"format":"steptune-run-9","steptune_version":"9.1.0"}\n')
    for argv in (["tune", "--resume"], ["report"], ["report", "--verify"], ["forecast"]):
        text = complaint([*argv, str(tuned_run)], capsys)
        assert "is from another version, got steptune-run-9; allowed: steptune-run-1" in text
        assert "hint: use steptune 9.1.0" in text


@pytest.mark.parametrize("argv", [["tune", "--resume"], ["report"]])
def test_a_folder_that_is_no_run_is_named(argv: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "is no run folder" in complaint([*argv, str(tmp_path)], capsys)
    assert "is no run folder" in complaint([*argv, str(tmp_path / "nowhere")], capsys)


def test_two_sessions_on_one_run_folder_are_refused(job_file: Job, capsys: pytest.CaptureFixture[str]) -> None:
    main(["tune", job_file(""), "--advise-only"])
    (folder,) = Path("runs").glob("tiny-*")
    with session_lock(folder):
        text = complaint(["tune", "--resume", str(folder)], capsys)
    assert f"is in use by another session, got pid {os.getpid()}" in text
    assert main(["tune", "--resume", str(folder)]) == 0, "free again once the other has ended"


def test_a_full_disk_ends_the_session_and_a_resume_goes_on(
    job_file: Job, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from steptune.store import journal

    written = 0
    write_all = journal.write_all

    def full_after_six(descriptor: int, data: bytes) -> None:
        nonlocal written
        written += 1
        if written > 6:
            write_all(descriptor, data[: len(data) // 2])
            raise OSError(errno.ENOSPC, "No space left on device")
        write_all(descriptor, data)

    job = job_file("")
    with monkeypatch.context() as patch:
        patch.setattr(journal, "write_all", full_after_six)
        text = complaint(["tune", job], capsys)
    assert "the disk is full" in text
    assert "steptune tune --resume" in text
    (folder,) = Path("runs").glob("tiny-*")
    lines = (folder / "journal.jsonl").read_text().splitlines()
    assert len(lines) == 7, "six whole lines and half of one"
    assert main(["tune", "--resume", str(folder)]) == 0
    assert (folder / "journal.jsonl").read_text().splitlines()[:6] == lines[:6]
    assert (folder / "journal.torn-1").exists()
    assert main(["report", str(folder), "--verify"]) == 0


def test_a_session_that_died_before_its_first_line_says_so(
    job_file: Job, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from steptune.store.journal import Journal

    def die(*_: object) -> None:
        raise StoreError("gone, got nothing; allowed: x; hint: y")

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "append", die)
        complaint(["tune", job_file("")], capsys)
    (folder,) = Path("runs").glob("tiny-*")
    assert "the session never started" in complaint(["tune", "--resume", str(folder)], capsys)


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("layuot=packed", "did you mean `layout`?"),
        ("layout=packd", "did you mean `packed`?"),
        ("layout=7", "`padded`, `packed`"),
    ],
)
def test_a_forecast_of_a_knob_or_value_that_is_not_there_is_refused(
    setting: str, expected: str, tuned_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert expected in complaint(["forecast", str(tuned_run), "--set", setting], capsys)


def test_a_forecast_needs_a_profile(job_file: Job, capsys: pytest.CaptureFixture[str]) -> None:
    main(["tune", job_file("[limits]\nmemory_headroom_frac = 1.0\n")])
    (folder,) = Path("runs").glob("tiny-*")
    assert "holds no profile" in complaint(["forecast", str(folder), "--set", "layout=packed"], capsys)


@pytest.mark.parametrize("steps", ["0", "-3"])
def test_train_needs_at_least_one_step(steps: str, job_file: Job, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", job_file(""), f"--steps={steps}"]) == 2
    assert f"got {steps}" in capsys.readouterr().err


def test_an_interrupted_session_says_how_to_go_on(
    job_file: Job, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("steptune.tune.session.profile_baseline", interrupt)
    assert main(["tune", job_file("")]) == 130
    assert "steptune tune --resume" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["tune", "train"])
def test_without_torch_nothing_starts_and_no_run_folder_is_made(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("steptune.cli.frameworks.find_spec", lambda name: None)
    job = Path(__file__).parents[2] / "examples" / "math-dense.toml"
    assert main([command, str(job), "--runs", str(tmp_path / "runs")]) == 1
    assert "the embedded engine needs torch" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()
