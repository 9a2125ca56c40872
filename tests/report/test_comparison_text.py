"""The comparison: the verdict first, and nothing called a speed-up that came from less work."""

from comparison_records import empty, faster, less_work

from steptune.report.comparison_tables import value_of_setting
from steptune.report.comparison_text import comparison_text
from steptune.report.text_table import WIDTH


def lines(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


def test_the_verdict_is_the_first_thing_said() -> None:
    assert comparison_text(less_work(), "a.log", "b.log").splitlines()[2].startswith("NO PROOF: the work differs")
    assert comparison_text(faster()).splitlines()[2] == "FASTER: 1.5 x at the same work"


def test_both_ratios_stand_with_their_meaning_and_source() -> None:
    text = comparison_text(less_work())
    assert "- tokens per device-second, B / A: 1.09 x (derived)" in text
    assert "- step time as logged, A / B: 1.37 x (derived)" in text
    assert "- versions differ: A 0.4.0, B 0.4.1" in text


def test_work_that_was_asked_for_comes_before_work_that_came_out() -> None:
    held = lines(comparison_text(less_work()))
    assert held.index("group size 5 4 asked for") < held.index("completion length 812 tokens 790 tokens came out")
    assert "prompts per step 256 not stated asked for" in held


def test_settings_that_change_the_training_come_first() -> None:
    held = lines(comparison_text(less_work()))
    at = held.index("algorithm: not a speed-up")
    assert held[at : at + 6] == [
        "algorithm: not a speed-up",
        "- rollout.n: 5 -> 4",
        "speed only",
        "- rollout.gpu_memory_utilization: 0.5 -> 0.7",
        "unknown",
        "- rollout.logger: [console,true] (default) -> not set",
    ]


def test_the_name_of_a_setting_is_never_broken() -> None:
    name = "actor_rollout_ref.rollout." + "x" * 60
    (first, *_) = less_work().settings
    long = first.model_copy(update={"key": name, "a": "some/long/path/" * 3})
    assert name in comparison_text(less_work().model_copy(update={"settings": (long,)}))


def test_phases_without_tokens_get_no_ratio() -> None:
    assert "train 1 m 00 s 50.0 s unknown unknown tokens unknown" in lines(comparison_text(less_work()))


def test_the_same_file_name_on_both_sides_keeps_its_folder() -> None:
    text = comparison_text(less_work())
    assert "(a/run.log:3)" in text
    assert "(b/run.log:4)" in text


def test_nothing_read_gives_a_short_answer_without_tables() -> None:
    text = comparison_text(empty())
    assert "NO PROOF: no timing on either side" in text
    assert "[" not in text


def test_lines_fit_the_width() -> None:
    assert all(len(line) <= WIDTH for line in comparison_text(less_work()).splitlines())


def test_settings_are_written_as_in_a_config() -> None:
    assert [value_of_setting(v) for v in (None, True, (1, "a"), 0.5)] == ["not set", "true", "[1,a]", "0.5"]
