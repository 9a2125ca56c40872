import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from steptune.cli.forecast_command import _setting
from steptune.cli.main import main
from steptune.core.decision import Decision, Outcome
from steptune.core.errors import JobError
from steptune.core.knob import Effect, KnobSpec, Restart
from steptune.core.phase import Role

Job = Callable[[str], str]


def said(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().err


def test_tune_prints_the_summary_and_leaves_a_report(job_file: Job, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", job_file("")]) == 0
    out = capsys.readouterr()
    (folder,) = Path("runs").glob("tiny-*")
    assert str(folder / "report.html") in out.out
    assert "trial 1 of at most 8" in out.err, "progress goes to stderr"
    assert {"report.html", "report.json", "decision.json", "tuned.toml", "tripwires.json"} <= {
        path.name for path in folder.iterdir()
    }
    decision = Decision.model_validate_json((folder / "decision.json").read_bytes())
    assert decision.outcome is Outcome.ADOPT
    assert decision.settings == {"layout": "packed", "compact_finished": True}


def test_advice_alone_tries_nothing_and_can_be_taken_up_later(
    job_file: Job, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tune", job_file(""), "--advise-only", "--runs", "elsewhere"]) == 0
    (folder,) = Path("elsewhere").glob("tiny-*")
    assert not (folder / "decision.json").exists()
    assert list((folder / "trials").iterdir()) == []
    assert main(["tune", "--resume", str(folder)]) == 0
    assert (folder / "decision.json").exists()


def test_tune_takes_a_job_or_a_run_but_not_both(job_file: Job, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune"]) == 2
    assert "got neither; allowed: one of them; hint: " in said(capsys)
    assert main(["tune", job_file(""), "--resume", "runs/x"]) == 2
    assert "got both; allowed: one of them; hint: " in said(capsys)


def test_overrides_reach_the_resolved_job(job_file: Job) -> None:
    assert main(["tune", job_file(""), "--advise-only", "--set", "budget.max_trials=3"]) == 0
    (folder,) = Path("runs").glob("tiny-*")
    assert json.loads((folder / "job.json").read_text())["budget"]["max_trials"] == 3


def test_verify_passes_on_an_untouched_run(tuned_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(tuned_run), "--verify"]) == 0
    assert "every forecast and decision was recomputed and agrees" in capsys.readouterr().out


def test_verify_fails_when_any_one_line_is_edited_moved_or_removed(
    tuned_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = (tuned_run / "journal.jsonl").read_text().splitlines(keepends=True)
    for index, line in enumerate(lines):
        others = [*lines[:index], *lines[index + 1 :]]
        edited = [*lines[:index], line.replace('"kind":"', '"kind": "', 1), *lines[index + 1 :]]
        renumbered = [*lines[:index], line.replace('"time":"2', '"time":"1'), *lines[index + 1 :]]
        moved = [*others[: (index + 1) % len(lines)], line, *others[(index + 1) % len(lines) :]]
        for name, changed in (("removed", others), ("edited", edited), ("renumbered", renumbered), ("moved", moved)):
            assert changed != lines
            copy = tmp_path / f"{name}-{index}"
            shutil.copytree(tuned_run, copy)
            (copy / "journal.jsonl").write_text("".join(changed))
            assert main(["report", str(copy), "--verify"]) == 3, (name, index)
            assert "of the journal" in capsys.readouterr().out
            shutil.rmtree(copy)


def test_report_is_written_again_from_the_run_folder_alone(tuned_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (tuned_run / "report.html").read_bytes()
    (tuned_run / "report.html").unlink()
    assert main(["report", str(tuned_run)]) == 0
    assert (tuned_run / "report.html").read_bytes() == before
    capsys.readouterr()
    assert main(["report", str(tuned_run), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)


def test_a_forecast_is_made_from_a_run_or_from_the_job_s_latest_run(
    tuned_run: Path, job_file: Job, capsys: pytest.CaptureFixture[str]
) -> None:
    for target in (str(tuned_run), job_file("")):
        assert main(["forecast", target, "--set", "layout=packed", "--json"]) == 0
        forecast = json.loads(capsys.readouterr().out)
        # training 0.4 s of 1.0 s halves
        assert forecast["ratio"]["value"] == pytest.approx(0.8, rel=0.02)
    assert len(list(Path("runs").glob("tiny-*"))) == 1, "no second profile was needed"


def test_a_forecast_of_a_job_without_a_run_profiles_it_first(job_file: Job, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["forecast", job_file(""), "--set", "compact_finished=true"]) == 0
    out = capsys.readouterr()
    assert "profiling it now" in out.err
    assert "compact_finished: False -> True" in out.out
    assert "80 % interval" in out.out


def test_train_prints_accuracy_before_and_after(job_file: Job, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", job_file(""), "--steps", "12"]) == 0
    out = capsys.readouterr()
    assert "held-out accuracy 0.450 -> 0." in out.out
    assert "after 12 RL steps" in out.out
    assert "step 12:" in out.err


def test_doctor_names_the_machine(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) in (0, 1)
    out = capsys.readouterr().out
    for name in ("machine", "load", "cache", "torch"):
        assert name in out


def test_a_forecast_may_ask_for_a_size_that_the_search_would_not_try() -> None:
    size = KnobSpec(
        name="micro_batch_tokens",
        side=Role.TRAINER,
        values=(1024, 4096, None),
        effect=Effect.NONE,
        restart=Restart.HOT,
        what="positions per micro-batch",
    )
    switch = size.model_copy(update={"name": "recompute", "values": (True, False)})
    specs = {"micro_batch_tokens": size, "recompute": switch}
    assert _setting("micro_batch_tokens=2048", specs) == ("micro_batch_tokens", 2048)
    assert _setting("micro_batch_tokens=off", specs) == ("micro_batch_tokens", None)
    assert _setting("recompute=false", specs) == ("recompute", False)
    for wrong in ("micro_batch_tokens=-1", "micro_batch_tokens=true", "micro_batch_tokens=[1]", "recompute=1"):
        with pytest.raises(JobError, match="has no such value"):
            _setting(wrong, specs)
