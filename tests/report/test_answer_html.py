"""The pages of answers: whole, well-formed, self-contained, told apart without colour, every number with its source."""

import re
from collections.abc import Callable
from xml.etree import ElementTree

import pytest
from comparison_records import empty, faster, less_work
from diagnosis_records import config_only, full, nothing, trainer_profile
from hypothesis import given
from hypothesis import strategies as st
from test_report_html import parsed
from training_records import RUN

from steptune.core.finding import FindingKind
from steptune.core.profile import SampledLengths, SummaryLengths
from steptune.core.training import Training
from steptune.report.comparison_html import comparison_html
from steptune.report.diagnosis_html import diagnosis_html
from steptune.report.pictures import ceilings, lengths
from steptune.report.svg.trend import draw_trend, trend_text
from steptune.report.training_html import training_html

PAGES: dict[str, Callable[[], str]] = {
    "full": lambda: diagnosis_html(full()),
    "nothing": lambda: diagnosis_html(nothing()),
    "config": lambda: diagnosis_html(config_only()),
    "lint": lambda: diagnosis_html(full(), (FindingKind.LINT,)),
    "less_work": lambda: comparison_html(less_work(), "a", "b"),
    "faster": lambda: comparison_html(faster()),
    "empty": lambda: comparison_html(empty()),
    "training": lambda: training_html(RUN),
    "training, not begun": lambda: training_html(Training(job_name="j")),
}


def tree(document: str) -> ElementTree.Element:
    return ElementTree.fromstring(document.removeprefix("<!DOCTYPE html>\n"))


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_well_formed_and_loads_nothing(name: str) -> None:
    document = PAGES[name]()
    parser = parsed(document)
    assert (parser.open_tags, parser.crossed, parser.loads) == ([], 0, [])
    assert parser.tags.isdisjoint({"script", "link", "img", "iframe", "object", "embed", "form", "base"})
    assert re.findall(r"\bon\w+\s*=|@import|url\((?!#)", document) == []
    assert "default-src &#x27;none&#x27;" in document
    tree(document)


@pytest.mark.parametrize("name", PAGES)
def test_ids_are_unique_and_drawings_are_described(name: str) -> None:
    root = tree(PAGES[name]())
    ids = [held for e in root.iter() if (held := e.get("id"))]
    assert len(ids) == len(set(ids))
    plots = [svg for svg in root.iter("svg") if "plot" in (svg.get("class") or "").split()]
    assert all(svg.findtext("title") and svg.findtext("desc") for svg in plots)


@pytest.mark.parametrize("name", PAGES)
def test_every_table_has_a_caption_and_heads(name: str) -> None:
    for table in tree(PAGES[name]()).iter("table"):
        assert "".join(table.find("caption").itertext())  # type: ignore[union-attr]
        assert all(th.get("scope") == "col" for th in table.iter("th"))


def test_a_wait_is_hatched() -> None:
    waits = [svg for svg in tree(PAGES["full"]()).iter("svg") if svg.get("class") == "segment exposed_wait"]
    assert len(waits) == 1
    assert [rect for rect in waits[0].iter("rect") if rect.get("fill") == "url(#hatch)"]


def test_without_timing_no_picture_of_time_is_drawn() -> None:
    assert 'id="time"' not in PAGES["config"]()
    assert "nothing is claimed about speed" in PAGES["config"]()


@given(st.text(max_size=40))
def test_pasted_text_stays_text(pasted: str) -> None:
    held = full()
    evil = tuple(f.model_copy(update={"title": f"<script>{pasted}", "code": pasted}) for f in held.findings)
    document = diagnosis_html(held.model_copy(update={"findings": evil, "switch_on": (pasted,)}))
    assert "<script" not in document
    tree(document)


def test_severity_is_a_word_and_not_only_a_colour() -> None:
    text = "".join(tree(PAGES["full"]()).itertext())
    assert "Fault 31 % of answers are cut" in text
    assert "Warning the logits did not fit" in text


def test_ceilings_float_from_the_free_step_to_today() -> None:
    bars = ceilings(full())
    assert bars is not None
    assert [(bar.label, bar.start, bar.end) for bar in bars.bars] == [
        ("a step today", 0.0, 18837.0),
        ("no train", 2054.0, 18837.0),
        ("no waits for rollout", 17627.0, 18837.0),
        ("no old_logprob", 18417.0, 18837.0),
    ]
    assert ceilings(nothing()) is None


def test_lengths_become_bars_or_a_histogram() -> None:
    profile = trainer_profile()
    summary = lengths(profile)
    assert summary is not None
    assert [bar.end for bar in summary.bars] == [190.0, 5200.0, 8192.0]
    assert "31 % of the completions hit the limit" in summary.caption
    samples = SampledLengths(prompt=(5,) * 4, completion=(0, 1, 1, 99), rollouts_per_step=4)
    histogram = lengths(profile.model_copy(update={"lengths": samples}))
    assert histogram is not None
    # 100 lengths in 10 bars: 0 to 9 holds three, 90 to 99 one
    assert [bar.end for bar in histogram.bars] == [3.0, *[0.0] * 8, 1.0]
    assert lengths(profile.model_copy(update={"lengths": SummaryLengths()})) is None


@given(st.lists(st.floats(), max_size=20))
def test_any_series_draws_a_well_formed_row_and_says_its_gaps(values: list[float]) -> None:
    drawn = draw_trend("reward", values, "1", "key")
    ElementTree.fromstring(drawn)
    assert "nan" not in re.findall(r'd="([^"]*)"', drawn)


def test_a_missing_value_breaks_the_line() -> None:
    drawn = draw_trend("reward", [1.0, float("nan"), 2.0], "1", "")
    assert "trend-line" not in drawn
    assert drawn.count("trend-dot") == 2
    assert trend_text([1.0, float("nan"), 2.0], "s").endswith("1 value of 3 is no number")
