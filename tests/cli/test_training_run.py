"""`steptune train`: validation before, between and after, the report beside it, checkpoints where they can be."""

import argparse
from collections.abc import Callable
from pathlib import Path

import pytest

from steptune.cli.main import main
from steptune.cli.train_command import plan_of
from steptune.cli.training_run import NOTHING_LEARNT, TrainingRun, is_saved, is_validated, stops
from steptune.cli.training_start import TrainingStart, before, new_training
from steptune.cli.wrong_call import WrongCallError
from steptune.core.errors import JobError
from steptune.core.framework import LaunchSpec
from steptune.core.job import JobSpec
from steptune.core.training import Training, TrainingPlan
from steptune.core.trial import Observation
from steptune.testing.fake_framework import FakeFramework

Job = Callable[[str], str]


def test_something_is_due_at_every_multiple_and_at_the_end() -> None:
    plan = TrainingPlan(num_steps=12, validate_every=4, save_every=6, state_every=None)
    assert stops(plan, 0) == [4, 5, 6, 8, 10, 12]
    assert stops(plan, 6) == [8, 10, 12]
    assert [at for at in stops(plan, 0) if is_validated(plan, at)] == [4, 8, 12]
    assert [at for at in stops(plan, 0) if is_saved(plan, at)] == [6, 12]
    assert stops(TrainingPlan(num_steps=3, validate_every=25, save_every=None), 0) == [3]


class SavingSession:
    """The fake's session, with models: the first can be saved, the second cannot."""

    def __init__(self, folder: Path) -> None:
        job = JobSpec(name="tiny", framework="fake")
        framework = FakeFramework()
        settings = {lever.knob: lever.value for lever in framework.baseline(job, "default")}
        inner = framework.launch(job, LaunchSpec(settings=settings, seed=1), folder)
        self.run_steps, self.evaluate, self.lengths, self.close = (
            inner.run_steps,
            inner.evaluate,
            inner.lengths,
            inner.close,
        )
        self.saved: list[Path] = []

    def save_model(self, folder: Path) -> str | None:
        self.saved.append(folder)
        return None if len(self.saved) == 1 else "the disk said no"


def test_the_curve_the_steps_and_the_checkpoints_are_kept(tmp_path: Path) -> None:
    session, said = SavingSession(tmp_path), list[str]()
    run = TrainingRun(session, Training(job_name="tiny"), tmp_path, said.append)
    training = run.run(TrainingPlan(num_steps=12, validate_every=4, save_every=6))
    assert [held.step for held in training.evaluations] == [0, 4, 8, 12]
    assert [step.step for step in training.steps] == list(range(12))
    assert session.saved == [tmp_path / "checkpoints/step-000006", tmp_path / "checkpoints/step-000012"]
    assert [model.refused for model in training.models] == [None, "the disk said no"]
    assert Training.model_validate_json((tmp_path / "training.json").read_bytes()) == training
    assert "train: no checkpoint: the disk said no" in said


def test_steps_without_a_difference_in_reward_are_said_to_teach_nothing(tmp_path: Path) -> None:
    session, run_steps = SavingSession(tmp_path), list[int]()
    made = session.run_steps

    def equal_at_first(num_steps: int) -> list[Observation]:
        run_steps.append(num_steps)
        frac = 1.0 if len(run_steps) == 1 else 0.5
        return [step.model_copy(update={"zero_advantage_frac": frac, "loss": 0.25}) for step in made(num_steps)]

    session.run_steps = equal_at_first  # type: ignore[method-assign]
    said = list[str]()
    plan = TrainingPlan(num_steps=10, validate_every=100, state_every=None)
    training = TrainingRun(session, Training(job_name="tiny"), tmp_path, said.append).run(plan)
    assert run_steps == [5, 5]
    assert said.count(NOTHING_LEARNT) == 1
    assert said.index(NOTHING_LEARNT) == 2, "after the first line of steps, whose loss is told too"
    assert "loss 0.25" in said[1]
    assert {step.loss for step in training.steps} == {0.25}


def test_a_record_that_was_begun_is_gone_on_with(tmp_path: Path) -> None:
    plan = TrainingPlan(num_steps=4, validate_every=4, save_every=None)
    first = TrainingRun(SavingSession(tmp_path), Training(job_name="tiny"), tmp_path, lambda _: None).run(plan)
    longer = TrainingPlan(num_steps=6, validate_every=4, save_every=None)
    again = TrainingRun(SavingSession(tmp_path), first, tmp_path, lambda _: None).run(longer)
    assert len(again.steps) == 6
    assert again.evaluations[:2] == first.evaluations
    assert len(again.evaluations) == 3


def test_train_leaves_a_report_that_can_be_printed_again(job_file: Job, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", job_file(""), "--steps", "12", "--validate-every", "5"]) == 0
    (folder,) = Path("runs").glob("tiny-train-*")
    assert "Held-out accuracy (measured)" in (folder / "report.html").read_text()
    assert "no checkpoint: this framework saves no models" in capsys.readouterr().err
    (folder / "report.html").unlink()
    assert main(["report", str(folder)]) == 0
    out = capsys.readouterr().out
    assert out.rstrip("\n") == (folder / "report.txt").read_text().rstrip("\n")
    assert (folder / "report.html").exists()
    assert main(["report", str(folder), "--json"]) == 0
    assert '"job_name": "tiny"' in capsys.readouterr().out
    (folder / "training.json").write_text("{}")
    assert main(["report", str(folder)]) == 1
    assert "was edited or is from another version" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--validate-every", "--save-every", "--state-every"])
def test_an_interval_must_be_positive(option: str, job_file: Job, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", job_file(""), option, "0"]) == 2
    assert f"`{option}` must be positive" in capsys.readouterr().err


def test_a_resumed_run_forgets_what_came_after_its_state(tmp_path: Path) -> None:
    plan = TrainingPlan(num_steps=8, validate_every=4, save_every=4)
    known = TrainingRun(SavingSession(tmp_path), Training(job_name="tiny"), tmp_path, lambda _: None).run(plan)
    cut = before(known, 5)
    assert [step.step for step in cut.steps] == [0, 1, 2, 3, 4]
    assert [held.step for held in cut.evaluations] == [0, 4]
    assert [model.step for model in cut.models] == [4]


def test_states_are_stops_of_the_plan() -> None:
    plan = TrainingPlan(num_steps=12, validate_every=100, save_every=None, state_every=4)
    assert stops(plan, 3) == [4, 5, 8, 10, 12]


def test_a_pinned_schedule_that_breaks_the_owners_limit_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = tmp_path / "job.toml"
    job.write_text('name = "tiny"\n[knobs.pin]\nschedule = "one_step_off"\n')
    new_training(argparse.Namespace(job=str(job), overrides=[], runs=str(tmp_path), state_every=None))
    assert "would not choose this configuration: limits.max_staleness is 0" in capsys.readouterr().err


def test_compile_without_a_compiler_is_refused_before_anything_is_trained_or_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    job = tmp_path / "job.toml"
    job.write_text('name = "tiny"\n[knobs.pin]\ncompile = true\n')
    with pytest.raises(JobError, match=r"no C\+\+ compiler `no-such-compiler`; .+ hint: install it"):
        new_training(argparse.Namespace(job=str(job), overrides=[], runs=str(tmp_path / "runs"), state_every=None))
    assert not (tmp_path / "runs").exists()


def test_a_resumed_run_keeps_its_plan_unless_another_is_asked_for() -> None:
    known = Training(job_name="tiny", plan=TrainingPlan(num_steps=30, validate_every=7, save_every=9))
    launch = LaunchSpec(settings={}, seed=1)
    begun = TrainingStart(
        job=JobSpec(name="tiny"), launch=launch, folder=Path(), training=before(known, 20), steps_done=20
    )
    nothing = {"steps": None, "validate_every": None, "save_every": None, "state_every": None}
    assert plan_of(argparse.Namespace(**nothing), begun) == known.plan
    asked = plan_of(argparse.Namespace(**nothing | {"steps": 40, "save_every": 5}), begun)
    assert asked == TrainingPlan(num_steps=40, validate_every=7, save_every=5)
    with pytest.raises(WrongCallError, match="no step left, got 20 steps done of 20 in all"):
        plan_of(argparse.Namespace(**nothing | {"steps": 20}), begun)


def test_a_setting_that_a_resumed_run_would_ignore_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--resume", "runs/x", "--set", "algorithm.lr=1"]) == 2
    assert "goes on with the job that it was begun with, got `--resume` and `--set algorithm.lr=1`" in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize("argv", [["train"], ["train", "job.toml", "--resume", "runs/x"]])
def test_train_takes_a_job_or_a_run(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 2
    assert "takes a job file or `--resume RUN`" in capsys.readouterr().err


def test_a_folder_that_is_no_training_run_cannot_be_resumed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--resume", str(tmp_path)]) == 1
    assert "cannot be resumed, got no whole `run.json` and `training.json` in it" in capsys.readouterr().err
