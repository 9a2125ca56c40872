"""Whatever happens to the text of a real log, a number is read right or not at all."""

import textwrap
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reader_logs import FIXTURES, WITH_STEPS, assert_is_sound, steps_in

from steptune.readers.read_paste import read_paste

TEXTS = {name: (FIXTURES / name).read_bytes() for name in (*WITH_STEPS, "verl_cut_before_timings.txt")}


def values(text: str) -> dict[tuple[int | None, str], float]:
    name = "nemo_rl" if "Training Results" in text else "verl"
    steps = steps_in(text.splitlines(keepends=True), name)
    return {(step.number, reading.key): reading.value for step in steps for reading in step.readings.values()}


def reference(name: str) -> dict[tuple[int | None, str], float]:
    """Readings of the untouched log, with what may be cut at its end."""
    text = TEXTS[name].decode()
    return values(text + "\n" + "end of log\n")


@given(st.sampled_from(sorted(TEXTS)), st.data())
@settings(max_examples=300, deadline=None)
def test_a_log_cut_at_any_byte_gives_only_values_of_the_whole_log(name: str, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(TEXTS[name])))
    whole = reference(name)
    for key, value in values(TEXTS[name][:cut].decode(errors="replace")).items():
        assert whole[key] == value


@pytest.mark.parametrize("name", WITH_STEPS)
def test_a_log_cut_anywhere_gives_a_sound_profile_or_none(name: str, tmp_path: Path) -> None:
    log = tmp_path / "cut.log"
    for cut in range(0, len(TEXTS[name]), 23):
        log.write_bytes(TEXTS[name][:cut])
        profile = read_paste([log]).profile
        if profile is not None:
            assert_is_sound(profile)


def wrapped(text: str, width: int, *, strips: bool) -> str:
    rows = [line[i : i + width] for line in text.split("\n") for i in range(0, max(len(line), 1), width)]
    return "\n".join(row.strip(" ") if strips else row for row in rows)


@given(st.sampled_from(["verl_sync.txt", "verl_fully_async.txt"]), st.integers(80, 250), st.booleans())
@settings(max_examples=120, deadline=None)
def test_a_terminal_of_any_width_breaks_no_number(name: str, width: int, strips: bool) -> None:
    whole = reference(name)
    found = values(wrapped(TEXTS[name].decode(), width, strips=strips) + "\n\nend of log\n")
    for key, value in found.items():
        assert whole[key] == value
    if width >= 120:
        timings = {
            key: value for key, value in whole.items() if key[1].startswith("timing_s/") and "profile" not in key[1]
        }
        assert timings.items() <= found.items()


def test_a_number_broken_over_two_rows_is_put_together_and_one_at_the_end_is_left_out() -> None:
    found = values(TEXTS["verl_cut_before_timings.txt"].decode())
    # 235.7 | 8125
    assert found[19, "response_length/mean"] == 235.78125
    # the post ends in `prompt_length/mean:81.46`, shorter than the run printed it
    assert (19, "prompt_length/mean") not in found


def test_a_bare_number_after_a_full_row_makes_the_last_value_uncertain() -> None:
    row = "step:7 - timing_s/gen:40.0 - timing_s/step:80.0 - perf/total_num_tokens:10 - perf/throughput:12"
    assert values(f"{row}\nTraining Progress: 1%\n")[7, "perf/throughput"] == 12
    assert (7, "perf/throughput") not in values(f"{row}\n345\nTraining Progress: 1%\n")


def test_indented_and_coloured_text_reads_the_same() -> None:
    text = TEXTS["verl_fully_async.txt"].decode()
    coloured = text.replace("(FullyAsyncTrainer pid=1001)", "\x1b[36m(FullyAsyncTrainer pid=1001, ip=10.0.0.1)\x1b[0m")
    assert values(textwrap.indent(coloured, " ")) == values(text)
