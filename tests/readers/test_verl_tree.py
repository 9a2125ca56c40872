from pathlib import Path

from reader_logs import FIXTURES, profile_at, profile_of, seconds, steps_in

from steptune.core.phase import Role, SpanKind
from steptune.readers.read_paste import read_paste

NAME = "verl_easyr1_tree.txt"


def test_a_tree_of_metrics_is_a_step_under_verls_keys() -> None:
    paste = read_paste([FIXTURES / NAME])
    assert (paste.framework, paste.num_steps_seen) == ("verl", 1)
    found = {series.name: series.finite() for series in paste.series}
    assert found["reward"] == [0.337]
    assert found["completion_mean"] == [311.8]
    assert found["mfu"] == [0.211]
    assert found["critic/score/max"] == [1.0]
    step = paste.get_series("step_time")
    assert step is not None
    assert (step.points[0].step, step.points[0].value, step.points[0].line) == (3, 94.9, 25)


def test_its_timers_make_a_profile() -> None:
    profile = profile_of(NAME)
    assert seconds(profile, Role.ROLLOUT, "rollout", SpanKind.BUSY) == 41.7
    assert seconds(profile, Role.TRAINER, "train", SpanKind.BUSY) == 40.3


def test_a_tree_with_a_gap_or_without_its_head_is_not_guessed_at() -> None:
    lines = (FIXTURES / NAME).read_text().splitlines(keepends=True)
    headless = [line for line in lines if "Step 3" not in line]
    assert list(steps_in(headless, "verl")) == []
    broken = [*lines[:8], "(Runner pid=4242) other output\n", *lines[8:]]
    [step] = steps_in(broken, "verl")
    assert set(step.readings) == {"actor/entropy_loss", "actor/grad_norm", "actor/lr"}


def test_the_last_number_of_a_log_that_ends_in_a_tree_is_left_out() -> None:
    text = (FIXTURES / NAME).read_text()
    cut = text[: text.index("41.7") + 1]
    [step] = steps_in(cut.splitlines(keepends=True), "verl")
    assert step.value("timing_s/gen") is None
    assert step.has_broken("timing_s/gen")


def test_easyr1s_settings_declare_the_work(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    keys = ("data.rollout_batch_size=512", "worker.actor.global_batch_size=128", "worker.rollout.n=5")
    script.write_text("python3 -m verl.trainer.main \\\n" + "".join(f"    {key} \\\n" for key in keys))
    work = profile_at([script, FIXTURES / NAME]).work
    # 512 / 128 updates
    assert (work.prompts_per_step, work.group_size, work.num_updates) == (512, 5, 4)
    assert seconds(profile_of(NAME), Role.TRAINER, "old_logprob", SpanKind.BUSY) == 6.2
