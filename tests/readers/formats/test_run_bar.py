from pathlib import Path

import pytest

from steptune.core.paste import Paste
from steptune.readers.read_paste import read_paste

VERL = "(TaskRunner pid=7) step:{0} - training/global_step:{0} - critic/score/mean:0.41 - response_length/max:900.0\n"
SKYRL = "(skyrl_entrypoint pid=7) INFO | skyrl_train.trainer:train:240 - Started: 'step'\n"


def bar(label: str, done: int, clock: str, rate: str) -> str:
    return f"{label}:   3%|▎         | {done}/400 [{clock}<17:40:03, {rate}]\n"


def read(tmp_path: Path, text: str) -> Paste:
    path = tmp_path / "post.txt"
    path.write_text(text, encoding="utf-8")
    return read_paste([path])


BAR = bar("Training Progress", 12, "30:00", "150.00s/it")


@pytest.mark.parametrize(
    ("text", "step_s"),
    [
        (
            bar("Training Progress", 11, "27:33", "150.2s/it") + bar("Training Progress", 12, "30:00", "150.1s/it"),
            150.0,
        ),
        (bar("(TaskRunner pid=7) Training Progress", 12, "30:00", "149.00s/it"), 150.0),
        (bar("Running step", 12, "30:00", "151.00s/it"), 150.0),
        (bar("Training Progress", 312, "30:00", "150.00s/it"), None),  # resumed at step 300
        (bar("Training Progress", 2, "05:00", "150.00s/it"), None),  # warm-up
        (bar("Training Progress", 12, "30:00", "150.00s/it").replace("/400", "/90") + BAR, None),  # two runs
        (bar("Generating sequences", 12, "30:00", "150.00s/it"), None),
    ],
)
def test_a_bar_over_the_steps_gives_their_mean_where_nothing_else_is_timed(
    text: str, step_s: float | None, tmp_path: Path
) -> None:
    paste = read(tmp_path, text + VERL.format(12))
    assert paste.framework == "verl"
    assert (None if paste.profile is None else paste.profile.step_time.value) == step_s
    if paste.profile is not None:
        assert paste.profile.num_steps == 12
        assert not paste.profile.roles


@pytest.mark.parametrize("label", ["Training Step Progress", "Training Batches Processed"])
def test_skyrl_has_a_bar_over_its_steps_too(label: str, tmp_path: Path) -> None:
    paste = read(tmp_path, SKYRL + bar(label, 20, "1:00:00", "189.03s/it"))
    assert paste.framework == "skyrl"
    assert paste.profile is not None
    assert paste.profile.step_time.value == 180.0


@pytest.mark.parametrize(
    "timed",
    [
        "step:12 - timing_s/gen:20.5 - timing_s/update_actor:9.5 - timing_s/step:31.0 - a/b:1.0\n",
        "| timing_s/gen | 20.5 s |\n| timing_s/step | 31.0 s |\n",
        "`timing_s/gen`=20.5 and `timing_s/step`=31.0\n",
    ],
)
def test_a_step_that_is_timed_counts_before_its_bar(timed: str, tmp_path: Path) -> None:
    paste = read(tmp_path, bar("Training Progress", 12, "30:00", "150.00s/it") + timed)
    assert paste.profile is not None
    assert paste.profile.step_time.value == 31.0
