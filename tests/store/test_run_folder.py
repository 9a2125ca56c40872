import errno
import os
import shutil
from pathlib import Path

import pytest
from store_events import JOB, SteppingClock, session, started

from steptune.core.errors import StoreError
from steptune.store.files import replace
from steptune.store.journal import open_for_append, read_journal
from steptune.store.run_folder import RunFolder


def made(root: Path) -> RunFolder:
    return RunFolder.create(root, JOB, SteppingClock())


def names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def test_a_new_folder_is_named_after_job_and_time_and_opens_again(tmp_path: Path) -> None:
    run = made(tmp_path / "runs")
    assert run.path == tmp_path / "runs" / "tiny-20251102T080001Z"
    assert names(run.path) == ["job.json", "journal-head.json", "journal.jsonl", "trials", "version.json"]
    assert RunFolder.open(run.path) == run
    assert run.job() == JOB
    assert read_journal(run.journal_path) == []


def test_an_existing_folder_is_never_used_again(tmp_path: Path) -> None:
    runs = [made(tmp_path) for _ in range(3)]
    stem = "tiny-20251102T080001Z"
    assert [run.path.name for run in runs] == [stem, f"{stem}-2", f"{stem}-3"]


def test_trial_folders_are_named_by_number_and_signature_and_never_shared(tmp_path: Path) -> None:
    run = made(tmp_path)
    paths = [run.new_trial_folder(3, "abc"), run.new_trial_folder(3, "abc"), run.new_trial_folder(4, "abc")]
    assert [path.relative_to(run.path).as_posix() for path in paths] == [
        *("trials/3-abc", "trials/3-abc-r2", "trials/4-abc")
    ]


def test_a_file_is_written_once(tmp_path: Path) -> None:
    run = made(tmp_path)
    run.new_trial_folder(1, "abc")
    assert run.write_once("trials/1-abc/result.json", "first").read_text() == "first"
    with pytest.raises(StoreError, match="exists already"):
        run.write_once("trials/1-abc/result.json", "second")
    assert (run.path / "trials/1-abc/result.json").read_text() == "first"
    assert names(run.path / "trials") == ["1-abc", "1-abc/result.json"]


@pytest.mark.parametrize("failing", ["write", "fsync"])
def test_a_full_disk_leaves_no_half_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    run = made(tmp_path)
    run.write_tuned("old")
    before = names(run.path)
    with monkeypatch.context() as patch:
        patch.setattr(os, failing, half_then_full(os.write))
        with pytest.raises(StoreError, match=r"the disk is full: writing .* hint: free some space"):
            run.write_once("report.json", "new text")
        with pytest.raises(StoreError, match="the disk is full"):
            replace(run.path / "tuned.toml", "new text")
    assert names(run.path) == before
    assert (run.path / "tuned.toml").read_text() == "old"


def test_a_folder_whose_making_was_cut_off_is_no_run_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", half_then_full(os.write))
        with pytest.raises(StoreError, match="the disk is full"):
            made(tmp_path)
    (left,) = tmp_path.iterdir()
    with pytest.raises(StoreError, match="is no run folder"):
        RunFolder.open(left)


def test_a_missing_or_foreign_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no such folder"):
        RunFolder.open(tmp_path / "none")
    with pytest.raises(StoreError, match=r"no `version.json`"):
        RunFolder.open(tmp_path)


def test_a_folder_from_another_version_is_refused(tmp_path: Path) -> None:
    run = made(tmp_path)
    version = run.path / "version.json"
    version.write_text('{"format":"steptune-run-0","steptune_version":"0.0.1"}')
    message = "is from another version, got steptune-run-0; allowed: steptune-run-1; hint: use steptune 0.0.1"
    with pytest.raises(StoreError, match=message):
        RunFolder.open(run.path)


def test_a_damaged_job_is_a_store_error(tmp_path: Path) -> None:
    run = made(tmp_path)
    (run.path / "job.json").write_text('{"name": "tiny", "modl": 1}')
    with pytest.raises(StoreError, match=r"job.json` was edited or is from another version"):
        run.job()


def test_a_folder_that_vanishes_during_the_session_is_a_store_error(tmp_path: Path) -> None:
    run = made(tmp_path)
    journal = open_for_append(run.journal_path, SteppingClock())
    shutil.rmtree(run.path)
    for act in (
        lambda: journal.append(started()),
        lambda: run.new_trial_folder(1, "abc"),
        lambda: run.write_once("report.json", ""),
        lambda: run.write_tuned(""),
        run.job,
    ):
        with pytest.raises(StoreError, match="no such file or folder"):
            act()
    assert not run.path.exists()


def test_views_are_brought_up_to_date_as_events_come(tmp_path: Path) -> None:
    run = made(tmp_path)
    events = session()
    run.write_views(events[:2])
    assert "profile.json" in names(run.path)
    assert "decision.json" not in names(run.path)
    run.write_views(events)
    run.write_views(events)
    assert {"profile.json", "forecasts.jsonl", "decision.json", "tripwires.json"} <= {*names(run.path)}
    assert '"tuned": null' not in (run.path / "profile.json").read_text()


def half_then_full(real_write: object) -> object:
    """Return a stand-in for `os.write` or `os.fsync` on a disk that takes half of what is given, then nothing."""
    calls: list[int] = []

    def fail(descriptor: int, content: bytes = b"") -> int:
        calls.append(descriptor)
        if len(calls) % 2 and content:
            assert callable(real_write)
            return int(real_write(descriptor, content[: len(content) // 2]))
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    return fail
