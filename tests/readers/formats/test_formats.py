import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steptune.readers.formats.by_step import MAX_OPEN_STEPS, StepCollector
from steptune.readers.formats.dict_repr import DictText, read_pairs
from steptune.readers.formats.durations import parse_duration_s
from steptune.readers.formats.pipes import read_fields
from steptune.readers.formats.progress_bar import find_bars
from steptune.readers.formats.table_names import timer_named
from steptune.readers.formats.tables import table_cells
from steptune.readers.lines import Line
from steptune.readers.step import Dropped, Reading


def line(text: str, number: int = 1, *, may_be_cut: bool = False) -> Line:
    return Line(number=number, text=text, width=len(text), may_be_cut=may_be_cut)


def pairs(*rows: str) -> list[tuple[str, float, int] | str]:
    """Key, value and line of what is read, the bare key of what is dropped."""
    record = DictText.of(line(rows[0]))
    for number, row in enumerate(rows[1:], start=2):
        record.add(line(row, number))
    found = read_pairs(record)
    return [(r.key, r.value, r.line) if isinstance(r, Reading) else r.key for r in found]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("9h00m23s", 32423.0),
        ("36m37s", 2197.0),
        ("~22s", 22.0),
        ("2:55:16", 10516.0),
        ("04:41", 281.0),
        ("420ms", 0.42),
        ("1d 2h", 93600.0),
        ("2 days, 3:00:00", 183600.0),
    ],
)
def test_a_duration_states_its_unit(text: str, seconds: float) -> None:
    assert parse_duration_s(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["12", "", "5h6", "Ys", "-3s", "nan", "1:2"])
def test_what_is_no_duration_is_none(text: str) -> None:
    assert parse_duration_s(text) is None


def test_a_bar_is_found_glued_to_a_record_and_with_markdown_inside() -> None:
    glued = "Training Batches Processed:   1%|▏  | 12/804 [58:25<62:28:36, 283.99s/it]2026-06-15 13:24:42.955 | INFO"
    [bar] = find_bars(glued)
    assert (bar.label, bar.done, bar.total) == ("Training Batches Processed", 12, 804)
    assert (bar.elapsed_s, bar.item_s) == (3505.0, 283.99)
    [marked] = find_bars("  0%|   | 1/1000 [04:41<**78:02:42, 281.24s/it]**")
    assert (marked.label, marked.item_s) == ("", 281.24)


def test_a_bar_counts_items_per_second_too_and_without_a_rate_it_is_none() -> None:
    [bar] = find_bars("Generating rollouts (train): 100%|███| 512/512 [00:34<00:00, 14.65it/s]")
    assert bar.item_s == pytest.approx(1 / 14.65)
    assert list(find_bars("  0%|          | 0/1562 [00:00<?, ?it/s]")) == []


def test_pairs_survive_quotes_numpy_and_missing_quotes() -> None:
    text = "perf 0: {'a/b': '1.5e-06', 'perf/rollout_time': np.float64(4.8), 'names': ['x'], 'n': 3}"
    assert pairs(text) == [("a/b", 1.5e-06, 1), ("perf/rollout_time", 4.8, 1), ("n", 3.0, 1)]
    assert pairs("perf/rollout_time': 245.61117100715637") == [("perf/rollout_time", 245.61117100715637, 1)]


_VALUES = st.one_of(
    st.floats().map(repr),
    st.integers(-9, 10**9).map(str),
    st.sampled_from(
        ["None", "True", "nan", "-inf", "1_000", "1.", "np.float64(2.5)", "[1, 2]", "{'z': 1}", "2/9", "x y"]
    ),
)


@st.composite
def _records(draw: st.DrawFn) -> str:
    """A record as frameworks print it, half of the time with one character lost or put in."""
    quote = draw(st.sampled_from("'\""))
    parts = [
        f"{quote}{draw(st.sampled_from(['a/b', 'loss', '0th', 'eval it', 'k:d']))}{index}{quote}: {wrap}{value}{wrap}"
        for index, value in enumerate(draw(st.lists(_VALUES, max_size=5)))
        for wrap in [draw(st.sampled_from(["", "'", '"']))]
    ]
    text = "{" + ", ".join(parts) + "}" + draw(st.sampled_from(["", " {'b': 1}", ", 'c': 2", " tail"]))
    at = draw(st.integers(0, len(text) - 1))
    return draw(
        st.sampled_from(
            [
                text,
                text,
                text[:at] + text[at + 1 :],
                text[:at] + draw(st.sampled_from(["'", ":", "}", "1"])) + text[at:],
            ]
        )
    )


@given(text=_records())
@settings(max_examples=100, deadline=None)
def test_a_record_on_one_row_says_the_same_as_pair_by_pair(text: str) -> None:
    # a second row, though empty, makes the reader go through the record pair by pair
    assert [repr(found) for found in pairs(text)] == [repr(found) for found in pairs(text, "")]


def test_a_number_that_may_go_on_in_the_next_row_is_dropped_and_its_rest_is_no_number() -> None:
    assert pairs("{'reward': 0.0", "3683, 'kl': 0.5}") == ["reward", ("kl", 0.5, 2)]
    assert pairs("{'num_tokens':", "  '7.278e+05', 'kl': '1.098'}") == [("num_tokens", 727800.0, 1), ("kl", 1.098, 2)]


def test_a_key_broken_over_rows_is_not_read_under_its_second_half() -> None:
    assert pairs("{'loss': 1.0, 'eval_", "reward': 0.5, 'kl': 0.1}") == [("loss", 1.0, 1), ("kl", 0.1, 2)]


def test_nan_stays_nan_and_words_are_no_values() -> None:
    [(key, value, _)] = [p for p in pairs("{'kl': nan, 'mode': train, 'x': None}") if not isinstance(p, str)]
    assert key == "kl"
    assert math.isnan(value)


def test_fields_have_names_numbers_and_what_follows() -> None:
    fields = {f.name: (f.value, f.rest) for f in read_fields("  12.3s | Loss 0.0010 | Peak Mem.: 5.1/23.7 GiB (21.4%)")}
    assert fields == {"Time": (12.3, ""), "Loss": (0.001, ""), "Peak Mem.": (5.1, "/23.7 GiB (21.4%)")}


def test_cells_come_from_boxes_and_markdown_but_not_from_rules() -> None:
    assert table_cells("│ timeperf/rollout │ 8.8992e+01 │ x │") == ["timeperf/rollout", "8.8992e+01", "x"]
    assert table_cells("| `generate` | 5h26m | 60.4% |") == ["generate", "5h26m", "60.4%"]
    assert table_cells("|---|---:|") == table_cells("├─────┼────┤") == table_cells("Step 1 | Time: 3s") == []


def reading(key: str, value: float = 1.0) -> Reading | Dropped:
    return Reading(key=key, value=value, text=str(value), line=1)


def test_records_of_two_actors_become_one_step_though_one_runs_ahead() -> None:
    steps = StepCollector(path="log")
    for number, key in ((0, "rollout"), (1, "rollout"), (0, "train"), (1, "train")):
        assert list(steps.put(number, [reading(key)])) == []
    assert [(s.number, sorted(s.readings)) for s in steps.end()] == [
        (0, ["rollout", "train"]),
        (1, ["rollout", "train"]),
    ]


def test_a_second_run_in_one_file_is_not_mixed_into_the_first() -> None:
    steps = StepCollector(path="log")
    assert list(steps.put(0, [reading("t", 1.0)])) + list(steps.put(1, [reading("t", 2.0)])) == []
    first = list(steps.put(0, [reading("t", 3.0)]))
    assert [(s.number, s.value("t")) for s in (*first, *steps.end())] == [(0, 1.0), (1, 2.0), (0, 3.0)]


def test_another_actor_with_the_same_keys_is_left_out_whole() -> None:
    steps = StepCollector(path="log")
    assert list(steps.put(3, [reading("step_time", 600.0)])) == []
    assert list(steps.put(3, [reading("log_probs", 242.6), reading("step_time", 1729.4)])) == []
    [step] = steps.end()
    assert {key: r.value for key, r in step.readings.items()} == {"step_time": 600.0}


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 12), st.sampled_from(["a", "b", "c"])), max_size=60))
def test_no_step_ever_holds_two_values_and_few_are_open(records: list[tuple[int, str]]) -> None:
    steps = StepCollector(path="log")
    seen = 0
    for value, (number, key) in enumerate(records):
        seen += sum(1 for _ in steps.put(number, [reading(key, float(value))]))
        assert len(steps.steps) <= MAX_OPEN_STEPS
    seen += sum(1 for _ in steps.end())
    assert seen <= len(records)


def test_a_rate_that_is_no_number_is_no_bar() -> None:
    assert list(find_bars("  1%|   | 3/200 [00:40<1:04:17, ..25s/it]")) == []


def test_a_timer_is_known_by_its_short_name_and_a_whole_step_by_many() -> None:
    keys = ["perf/rollout_time", "perf/actor_train_time"]

    def named(name: str) -> str | None:
        return timer_named(name, step_key="perf/step_time", keys=keys, prefix="perf/", suffix="_time")

    assert named("`rollout`") == named("rollout_time") == named("perf/rollout_time") == "perf/rollout_time"
    assert named("Total") == named("step time") == "perf/step_time"
    assert named("misc") is None
