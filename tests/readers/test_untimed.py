"""Phases whose step is not timed, over the frameworks, and what the answer may say of them."""

from pathlib import Path

import pytest

from steptune.core.paste import Paste
from steptune.diagnose.paste import diagnose_paste
from steptune.readers.read_paste import read_paste
from steptune.report.diagnosis_text import diagnosis_text

OLD_VERL = (
    "step:7 - timing/gen:210.500 - timing/verify:4.250 - timing/adv:0.900 - timing/update_actor:63.000"
    " - actor/pg_loss:0.010 - critic/score/mean:0.500 - response_length/mean:900.000\n"
)
SPOKEN = (
    "(main_task pid=12) gen: 95.2 seconds\n(main_task pid=12) reward: 402.5 seconds\n"
    "(main_task pid=12) adv: 1.1 seconds]\n"
)
SKYRL = "- `timing/generate = 610.5s`\n- `timing/policy_train = 21.25s`\n- `trainer/global_step = 1`\n"
SLIME = (
    "(MegatronTrainRayActor pid=8) timer.py:32 - Timer log_probs end (elapsed: 6.5s)\n"
    "(MegatronTrainRayActor pid=8) timer.py:32 - Timer actor_train end (elapsed: 41.5s)\n"
    "(RolloutManager pid=7) rollout.py:720 - perf 4: {'perf/rollout_time': 88.0, 'rollout/response_len/mean': 1200.0}\n"
)
NEMO = "• policy_training: 37.65s (41.5%)\n• generation: 12.40s (13.7%)\n📊 Training Results:\n  • Loss: 0.0123\n"


def paste_of(tmp_path: Path, text: str) -> Paste:
    path = tmp_path / "post.txt"
    path.write_text(text, encoding="utf-8")
    return read_paste([path])


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (OLD_VERL, {"timing/gen": 210.5, "timing/update_actor": 63.0, "timing/verify": 4.25, "timing/adv": 0.9}),
        (SPOKEN, {"timing/reward": 402.5, "timing/gen": 95.2, "timing/adv": 1.1}),
        (SKYRL, {"timing/generate": 610.5, "timing/policy_train": 21.25}),
        (SLIME, {"perf/rollout_time": 88.0, "perf/actor_train_time": 41.5, "perf/log_probs_time": 6.5}),
        (NEMO, {"policy_training": 37.65, "generation": 12.4}),
    ],
)
def test_phases_without_their_step_are_seconds_and_nothing_else(
    text: str, seconds: dict[str, float], tmp_path: Path
) -> None:
    paste = paste_of(tmp_path, text)
    assert paste.profile is None
    assert {phase.origin.key: phase.seconds.value for phase in paste.phases if phase.origin} == seconds
    diagnosis = diagnose_paste(paste)
    assert {row.key: row.seconds.value for row in diagnosis.phases} == seconds
    assert all(row.share is None and row.if_free is None for row in diagnosis.phases)
    assert not diagnosis.bottlenecks
    assert "partial_timing" in diagnosis.codes()
    assert "no bottleneck is named" in diagnosis_text(diagnosis).replace("\n", " ")


def test_a_line_that_speaks_of_a_phase_counts_only_where_no_metric_times_anything(tmp_path: Path) -> None:
    paste = paste_of(tmp_path, f"{SPOKEN}{OLD_VERL}")
    assert [p.seconds.value for p in paste.phases if p.origin and p.origin.key == "timing/gen"] == [210.5]


def test_a_validation_after_the_step_is_told_and_is_no_part_of_it(tmp_path: Path) -> None:
    row = (
        "step:{} - actor/pg_loss:0.1 - timing_s/gen:20.5{} - timing_s/update_actor:9.5 - timing_s/step:31.0 - a/b:1.0\n"
    )
    text = "".join(row.format(n, " - timing_s/testing:900.0" if n == 5 else "") for n in range(1, 6))
    paste = paste_of(tmp_path, text)
    assert paste.profile is not None
    assert paste.profile.step_time.value == 31.0
    assert [(p.phase, p.seconds.value, p.seconds.n) for p in paste.phases] == [("validate", 900.0, 1)]
    told = next(finding for finding in diagnose_paste(paste).findings if finding.code == "outside_step")
    assert "validate 15 m" in told.title
    assert told.evidence[0].text == "timing_s/testing 900 s"


def test_a_value_that_has_all_its_decimals_is_whole_wherever_its_row_ends(tmp_path: Path) -> None:
    row = (
        "step:{0} - actor/pg_loss:0.010 - actor/entropy:0.300 - critic/score/mean:0.500 - response_length/mean:500.250"
        " - prompt_length/mean:99.000 - timing_s/gen:20.{0}00 - timing_s/update_actor:9.500 - timing_s/step:31.{0}00\n"
    )
    paste = paste_of(tmp_path, "".join(row.format(n) for n in range(3, 8)))
    assert paste.profile is not None
    assert paste.profile.step_time.value == pytest.approx(31.5)
    cut = paste_of(tmp_path, "".join(row.format(n)[:-2] + "\n" for n in range(3, 8)))
    assert cut.profile is None
    assert any("timing_s/step" in note.text and "left out" in note.text for note in cut.notes)
    assert {phase.phase for phase in cut.phases} == {"rollout", "train"}


def test_timers_that_an_exception_passes_are_no_phases(tmp_path: Path) -> None:
    after = "Finished 'generate'   310s\ntorch.OutOfMemoryError: Tried to allocate 9.00 GiB.\n"
    after += "Finished: 'policy_train', time cost: 12.50s\nFinished: 'step', time cost: 330.00s\n"
    before = "Finished: 'generate', time cost: 310.00s\nx\nFinished: 'policy_train', time cost: 12.50s\n"
    before += "Finished: 'step', time cost: 330.00s\nTraceback (most recent call last):\n"
    for text in (after, before):
        paste = paste_of(tmp_path, text)
        assert paste.framework == "skyrl"
        assert paste.profile is None
        assert [p.seconds.value for p in paste.phases] == [310.0]
        assert any("ended with an error" in note.text for note in paste.notes)


def test_time_under_no_known_timer_is_told_with_the_timers_that_are_there(tmp_path: Path) -> None:
    row = "step:{} - timing_s/gen:90.0 - timing_s/score:85.5 - timing_s/ref:60 - timing_s/step:250.0 - a/b:1\n"
    paste = paste_of(tmp_path, "".join(row.format(n) for n in range(3, 7)))
    told = next(finding for finding in diagnose_paste(paste).findings if finding.code == "unattributed_time")
    assert "`timing_s/score`" in told.title
    assert told.evidence[0].text == "timing_s/score 85.5 s"
