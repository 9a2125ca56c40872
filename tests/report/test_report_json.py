"""The JSON report: the same cards, readable back."""

import json

import pytest
from report_sessions import SESSIONS, full_session, nan_session

from steptune.report.build import build_report
from steptune.report.card import Report
from steptune.report.json import render_json


@pytest.mark.parametrize("name", SESSIONS)
def test_json_is_read_back_to_the_same_report(name: str) -> None:
    text = render_json(build_report(SESSIONS[name]()))
    assert render_json(Report.model_validate_json(text)) == text


def test_keys_are_sorted() -> None:
    text = render_json(build_report(full_session()))
    assert text == json.dumps(json.loads(text), sort_keys=True, indent=1) + "\n"


def test_nan_is_the_string_nan_so_that_any_parser_reads_the_file() -> None:
    text = render_json(build_report(nan_session()))

    def refuse(constant: str) -> float:
        raise ValueError(constant)

    json.loads(text, parse_constant=refuse)
    assert '"NaN"' in text


def test_numbers_keep_value_unit_and_source() -> None:
    report = json.loads(render_json(build_report(full_session())))
    figure = report["cards"][0]["body"]["blocks"][0]["figures"][1]
    assert figure["label"] == "speed over default"
    assert figure["cell"]["estimate"]["value"] == 2.43
    assert figure["cell"]["estimate"]["source"] == "measured"
