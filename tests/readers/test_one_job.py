"""Several files at once: copies and two tellings of one run count once, different jobs are refused by name."""

import json
from pathlib import Path
from random import Random

import pytest

from steptune.core.errors import MixedJobsError
from steptune.core.paste import Paste
from steptune.readers.read_paste import read_paste

Steps = dict[int, dict[str, float]]


def run(seed: int, first: int = 1, last: int = 10) -> Steps:
    """Steps of one run; another seed is another run of the same job."""
    steps: Steps = {}
    for number in range(first, last + 1):
        chance = Random(f"{seed}/{number}")
        gen, train = chance.uniform(50, 60), chance.uniform(20, 30)
        steps[number] = {
            "timing_s/gen": gen,
            "timing_s/update_actor": train,
            "timing_s/step": gen + train + 3,
            "critic/rewards/mean": chance.uniform(0.1, 0.9),
            "actor/grad_norm": chance.uniform(0.1, 0.2),
            "actor/lr": 1.234e-6,
        }
    return steps


def console(steps: Steps) -> str:
    return "".join(
        f"step:{number} - " + " - ".join(f"{key}:{value:.3f}" for key, value in held.items()) + "\n"
        for number, held in steps.items()
    )


def jsonl(steps: Steps) -> str:
    return "".join(json.dumps({"step": number, "data": held}) + "\n" for number, held in steps.items())


def read(tmp_path: Path, **texts: str) -> Paste:
    paths = [tmp_path / name.replace("_", ".") for name in texts]
    for path, text in zip(paths, texts.values(), strict=True):
        path.write_text(text)
    return read_paste(paths)


def said(paste: Paste) -> list[str]:
    return [note.text for note in paste.notes if note.is_about_input]


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (console(run(1)), "is a copy of"),
        (jsonl(run(1)), "tells the same run as"),
        (console(run(1, 6, 10)), "tells the same run as"),
        ("INFO start\n" + console(run(1)), "tells the same run as"),
    ],
    ids=["bytes", "metrics file", "tail", "edited"],
)
def test_a_second_telling_of_a_run_counts_once_and_is_named(tmp_path: Path, other: str, words: str) -> None:
    both, alone = read(tmp_path, a_log=console(run(1)), b_log=other), read(tmp_path, a_log=console(run(1)))
    assert any(words in text and "b.log" in text for text in said(both))
    assert both.num_steps_seen == alone.num_steps_seen == 10
    assert both.profile is not None
    assert alone.profile is not None
    assert both.profile.step_time == alone.profile.step_time
    step_times = [series for series in both.series if series.name == "step_time"]
    assert [len(series.points) for series in step_times] == [10]


def test_two_runs_are_refused_and_both_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(MixedJobsError, match=r"different jobs, got `.*b.log` and `.*a.log`.*`steptune compare`"):
        read(tmp_path, a_log=console(run(1)), b_log=console(run(2, 1, 12)))
    with pytest.raises(MixedJobsError):
        read(tmp_path, a_log=console(run(1)), b_jsonl=jsonl(run(2)))


@pytest.mark.parametrize("first", [11, 9], ids=["goes on", "repeats its last steps"])
def test_a_resumed_run_is_one_job(tmp_path: Path, first: int) -> None:
    paste = read(tmp_path, a_log=console(run(1)), b_log=console(run(3, first, 20)))
    assert paste.num_steps_seen == 10 + 21 - first
    assert said(paste) == []


def test_long_logs_are_compared_at_common_steps_wherever_they_start(tmp_path: Path) -> None:
    paste = read(tmp_path, a_log=console(run(1, 1, 900)), b_log=console(run(1, 500, 640)))
    assert any("tells the same run as" in text for text in said(paste))
    assert paste.num_steps_seen == 900


def test_logs_of_other_actors_share_no_metric_and_are_one_job(tmp_path: Path) -> None:
    trainer = console({n: {"timing_s/step": h["timing_s/step"]} for n, h in run(1).items()})
    rollout = console({n: {"timing_s/gen": h["timing_s/gen"]} for n, h in run(1).items()})
    assert said(read(tmp_path, a_log=trainer, b_log=rollout)) == []


def test_actors_that_call_their_own_clock_by_one_name_are_one_job(tmp_path: Path) -> None:
    clocks = [{n: {"time/step": 60.123 + n * seed, "time/x": 1.0} for n in range(20)} for seed in (1, 2)]
    marks = ("trainer/x", "orchestrator/x")
    rows = [
        "".join(json.dumps({"step": n, mark: 1.0, **held}) + "\n" for n, held in steps.items())
        for mark, steps in zip(marks, clocks, strict=True)
    ]
    config = "[orchestrator]\nbatch_size = 512\nrollouts_per_example = 8\n"
    paste = read(tmp_path, rl_toml=config, trainer_jsonl=rows[0], orchestrator_jsonl=rows[1])
    assert paste.framework == "prime_rl"
    assert said(paste) == []


def test_two_configurations_that_contradict_each_other_are_named_with_what_counts(tmp_path: Path) -> None:
    one = "data:\n  train_batch_size: 64\n  max_response_length: 512\ntrainer:\n  nnodes: 1\n"
    two = "data:\n  train_batch_size: 128\n  max_response_length: 1024\ntrainer:\n  nnodes: 1\n"
    (text,) = said(read(tmp_path, a_yaml=one, b_yaml=two))
    assert "differ in 2 settings" in text
    assert "`data.train_batch_size` 64 and 128" in text
    assert "the last file counts" in text
    assert said(read(tmp_path, a_yaml=one, b_yaml="trainer:\n  nnodes: 2\n")) == []


def dicts(seed: int, first: int = 1, last: int = 20) -> str:
    """A trainer's records without step numbers, several of them in one hundredth of an epoch."""
    lines: list[str] = []
    for number in range(first, last + 1):
        chance = Random(f"{seed}/{number}")
        record = {key: chance.uniform(0.1, 0.9) for key in ("loss", "grad_norm", "reward", "reward_std", "kl")}
        lines.append(f"{ ({**record, 'learning_rate': 1e-6, 'epoch': round(number * 0.0063, 2)}) }\n")
    return "".join(lines)


def test_runs_without_step_numbers_are_told_apart_by_their_epochs(tmp_path: Path) -> None:
    tail = read(tmp_path, a_log=dicts(1), b_log="INFO resumed view\n" + dicts(1, 12, 20))
    assert tail.framework == "trl"
    assert any("tells the same run as" in text for text in said(tail))
    assert tail.num_steps_seen == 20
    assert said(read(tmp_path, a_log=dicts(1), b_log=dicts(5, 21, 40))) == []
    with pytest.raises(MixedJobsError):
        read(tmp_path, a_log=dicts(1), b_log=dicts(2))
