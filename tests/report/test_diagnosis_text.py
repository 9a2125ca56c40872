"""The text answer: the point first, every number with its line, nothing claimed that was not measured."""

import re

import pytest
from diagnosis_records import bottleneck, config_only, full, nothing, origin
from hypothesis import given
from hypothesis import strategies as st

from steptune.core.finding import Diagnosis, Evidence, FindingKind, Remedy, Severity
from steptune.core.paste import Paste, ValueStatus
from steptune.core.phase import Role
from steptune.report.diagnosis_text import diagnosis_text, files_text, findings_text, grouped
from steptune.report.metrics_text import series_text
from steptune.report.neighbour_text import differences
from steptune.report.phase_rows import shown_rows
from steptune.report.places import Places
from steptune.report.text_table import WIDTH

ANSWERS = {"full": full, "nothing": nothing, "config": config_only}


@pytest.mark.parametrize("name", ANSWERS)
def test_lines_fit_the_width_unless_they_are_to_be_pasted(name: str) -> None:
    for line in diagnosis_text(ANSWERS[name]()).splitlines():
        assert len(line) <= WIDTH or line.startswith("    ")


@pytest.mark.parametrize("name", ANSWERS)
def test_the_same_input_gives_the_same_text(name: str) -> None:
    assert diagnosis_text(ANSWERS[name]()) == diagnosis_text(ANSWERS[name]())


def test_the_first_screen_says_what_to_fix_and_what_holds_the_step_up() -> None:
    top = diagnosis_text(full()).split("Where the step goes")[0]
    assert "verl 0.4.1, 4 steps read, a step takes 5 h 14 m" in top
    assert "8 x H100" in top
    assert top.index("FIX THIS FIRST") < top.index("31 % of answers are cut") < top.index("Trainer-bound: update_actor")
    # 18,837 - 1,210 = 17,627 s = 4 h 53 m 47 s
    assert "if generation were free a step would still take 4 h 54 m of 5 h 14 m" in top


def test_a_generation_bottleneck_does_not_say_what_free_generation_leaves_twice() -> None:
    cause = bottleneck().model_copy(update={"code": "rollout_bound"})
    text = diagnosis_text(full().model_copy(update={"findings": (cause,)}))
    assert "if generation were free a step" not in text


def test_numbers_stand_beside_the_line_they_were_read_on() -> None:
    text = diagnosis_text(full())
    row = next(line for line in text.splitlines() if line.startswith("train "))
    assert row.endswith(":12 update_actor")
    assert "lines of run.log" in " ".join(text.split())
    assert "(run.log:14)" in text


def test_a_wait_is_drawn_and_named_as_a_wait() -> None:
    rows = [line for line in diagnosis_text(full()).splitlines() if "waits for rollout" in line]
    assert len(rows) == 1
    assert "/" in rows[0]
    assert "#" not in rows[0]


def test_a_synchronous_job_shows_each_phase_once_the_longest_first() -> None:
    held = full()
    mirrored = tuple(
        row.model_copy(update={"role": Role.ROLLOUT, "is_wait": not row.is_wait}) for row in held.phases[:3]
    )
    shown = shown_rows(held.model_copy(update={"phases": (*held.phases, *mirrored)}))
    assert [(row.phase, row.role, row.is_wait) for row in shown] == [
        ("train", Role.TRAINER, False),
        ("rollout", Role.ROLLOUT, False),
        ("old_logprob", Role.TRAINER, False),
        ("unattributed", Role.TRAINER, False),
    ]


def test_an_asynchronous_job_shows_every_role_with_its_waits() -> None:
    held = full()
    assert held.paste.profile is not None
    profile = held.paste.profile.model_copy(update={"schedule": "async"})
    paste = held.paste.model_copy(update={"profile": profile})
    text = diagnosis_text(held.model_copy(update={"paste": paste}))
    assert "trainer, 8 devices, wall 5 h 14 m" in text.splitlines()
    assert "  waits for rollout" in text


def test_a_step_time_that_only_repeats_the_ceiling_is_not_said_again() -> None:
    cause = bottleneck()
    (advice, *_) = cause.remedies
    again = advice.model_copy(update={"step_time": cause.ceiling})
    text = diagnosis_text(full().model_copy(update={"findings": (cause.model_copy(update={"remedies": (again,)}),)}))
    assert "at best a step of 34 m 14 s (derived)" in text
    assert "step time 34 m 14 s" not in text


def test_without_timing_nothing_is_said_about_speed_and_the_switches_are_given() -> None:
    text = diagnosis_text(config_only())
    assert "No timing in this input: nothing is claimed about speed" in text
    assert "    trainer.logger=['console','tensorboard']" in text.splitlines()
    assert "Where the step goes" not in text
    assert "bound" not in text


def test_a_change_of_the_algorithm_is_not_sold_as_a_speed_up() -> None:
    text = " ".join(diagnosis_text(full()).split())
    said = "train on shorter answers; changes what is trained: not a speed-up; step time 2 h 30 m (forecast)"
    assert said in text


def test_every_finding_shows_its_code_once_or_stands_at_the_top_too() -> None:
    text = diagnosis_text(full())
    for finding in full().findings:
        expected = 2 if finding.severity is Severity.FAULT else 1
        mark = f"[{finding.code}]" if finding.kind is not FindingKind.BOTTLENECK else "1. trainer-bound"
        assert text.count(mark) == expected


def test_what_a_log_says_without_step_times_is_named_without_numbers_of_time() -> None:
    told = Evidence(text="57 of 178 tokens are used", origin=origin(5, "x"))
    cause = bottleneck().model_copy(
        update={
            "title": "57 of 178 tokens are used",
            "evidence": (told,),
            "share": None,
            "ceiling": None,
            "remedies": (),
        }
    )
    text = diagnosis_text(config_only().model_copy(update={"findings": (cause,)}))
    assert "Trainer-bound: 57 of 178 tokens are used\n  no step times in this input: no ceiling and no forecast" in text
    assert "1. trainer-bound: 57 of 178 tokens are used (run.log:5)\n\n" in f"{text}\n", (
        "the evidence is not said twice"
    )


def test_switches_keep_their_line_and_their_comment_stands_below() -> None:
    answer = config_only().model_copy(update={"switch_on": ("--use-tensorboard  # " + "all the metrics " * 8,)})
    lines = diagnosis_text(answer).splitlines()
    at = lines.index("    --use-tensorboard")
    assert lines[at + 1].startswith("      (all the metrics")
    assert all(len(line) <= WIDTH for line in lines)


def test_advice_that_only_repeats_the_switches_is_left_out() -> None:
    line = "trainer.logger=['console','tensorboard']"
    (lint, gap) = config_only().findings
    told = gap.model_copy(update={"remedies": (Remedy(text="print the timers", lines=(line,)),)})
    answer = config_only().model_copy(update={"findings": (lint, told)})
    assert diagnosis_text(answer).count(line) == 1


def test_metrics_are_told_from_first_to_last_and_doubted_ones_counted() -> None:
    text = " ".join(diagnosis_text(full()).split())
    assert (
        "- completion length: 5000 tokens to 5300 tokens, least 5000 tokens, most 5300 tokens (run.log:10 to 13,"
        in text
    )
    (series,) = full().paste.series
    doubted = series.points[0].model_copy(update={"status": ValueStatus.IMPLAUSIBLE})
    assert series_text(series.model_copy(update={"points": (doubted,)}), "tokens") == "1 value implausible"
    assert series_text(series.model_copy(update={"points": (series.points[1], doubted)}), "tokens") == (
        "5100 tokens; 1 value implausible"
    )


def test_a_number_is_never_parted_from_its_unit() -> None:
    for spaces in range(60, 100):
        cause = bottleneck().model_copy(update={"title": f"{'x' * spaces} takes 21 m 08 s of 40 % now"})
        text = diagnosis_text(full().model_copy(update={"findings": (cause,)}))
        assert "21 m 08 s" in text
        assert "40 %" in text


def test_advice_that_says_itself_what_it_changes_says_it_once() -> None:
    advice = Remedy(text="nearest value 64 (changes what is trained)", keeps_algorithm=False)
    cause = bottleneck().model_copy(update={"remedies": (advice,)})
    assert diagnosis_text(full().model_copy(update={"findings": (cause,)})).count("changes what is trained") == 1


def test_a_source_that_the_evidence_names_is_not_named_again() -> None:
    cause = bottleneck()
    (advice, _) = cause.remedies
    told = (*cause.evidence, Evidence(text=f"so it is; source: {advice.source}"))
    text = diagnosis_text(full().model_copy(update={"findings": (cause.model_copy(update={"evidence": told}),)}))
    assert text.count(advice.source) == 1


def test_equal_evidence_is_shown_once() -> None:
    cause = bottleneck()
    twice = cause.model_copy(update={"evidence": cause.evidence * 2, "kind": FindingKind.LINT})
    assert diagnosis_text(full().model_copy(update={"findings": (twice,)})).count("16,783 s") == 1


def test_what_is_not_stated_here_is_no_difference() -> None:
    (near,) = full().neighbours
    told = near.model_copy(update={"differs": ("devices 8 (yours 4)", "group size 16 (yours not stated)")})
    assert differences(told) == ["differs: devices 8 (yours 4)", "not stated here, there: group size 16"]


def test_a_run_without_a_known_difference_is_not_called_the_same_model() -> None:
    (near,) = full().neighbours
    (told,) = differences(near.model_copy(update={"differs": ()}))
    assert "models are compared by size alone" in told


def test_a_long_title_is_cut_at_the_top_and_whole_in_its_section() -> None:
    title = "waiting for tools: " + ", ".join(f"`component_{n}` 12.5 s" for n in range(20))
    told = Evidence(text="x", origin=origin(5, "x"))
    cause = bottleneck().model_copy(update={"title": title, "evidence": (told,), "share": None, "ceiling": None})
    text = " ".join(diagnosis_text(config_only().model_copy(update={"findings": (cause,)})).split())
    assert text.count("component_19") == 1
    assert "..." in text


def test_missing_names_are_grouped() -> None:
    assert grouped(["noise", "work.n", "phase.x", "work.m"]) == "noise, work (n, m), phase (x)"
    assert grouped([]) == ""


def test_nothing_recognised_is_said_with_the_number_of_lines() -> None:
    answer = nothing().model_copy(update={"paste": Paste(paths=("a.txt",), num_lines=7)})
    assert "unknown framework: nothing was recognised in 7 lines" in diagnosis_text(answer)


def test_of_many_files_only_the_first_are_named() -> None:
    paths = [f"job/{n}.log" for n in range(9)]
    assert files_text(paths, Places(paths)) == "0.log, 1.log, 2.log, 3.log, 4.log, 5.log and 3 more files"


def test_lint_alone_shows_only_its_kind() -> None:
    text = findings_text(full(), "lint", (FindingKind.LINT,))
    assert "1 warning in verl, 1 setting, 20 lines" in text
    assert "[lint/verl/batch]" in text
    assert "oom" not in text


def test_no_finding_says_so() -> None:
    assert "nothing found in unknown framework, 0 settings, 0 lines" in findings_text(nothing(), "lint", ())


@given(st.text(max_size=60))
def test_pasted_text_cannot_steer_the_terminal(pasted: str) -> None:
    evil = bottleneck().model_copy(update={"title": pasted, "code": "lint/x", "kind": FindingKind.LINT})
    text = diagnosis_text(Diagnosis(paste=nothing().paste, findings=(evil,)))
    assert re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", text) is None
