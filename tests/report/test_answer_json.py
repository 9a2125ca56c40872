"""The JSON answer: scripts hold on to these keys. One may be added; removing one raises `SCHEMA_VERSION`."""

import json

from comparison_records import less_work
from diagnosis_records import full

from steptune.core.comparison import Comparison
from steptune.core.finding import Diagnosis
from steptune.report.answer_json import SCHEMA_VERSION, answer_json

DIAGNOSIS_KEYS = {
    *("schema_version", "paste", "phases", "bottlenecks", "findings"),
    *("cannot_help", "neighbours", "switch_on"),
}
FINDING_KEYS = {"code", "kind", "severity", "title", "evidence", "remedies", "share", "ceiling"}
COMPARISON_KEYS = {
    *("schema_version", "verdict", "reason", "raw_step_ratio", "throughput_ratio", "work", "settings"),
    *("versions", "phases", "findings", "settle"),
}


def test_the_keys_of_an_answer_are_the_documented_ones() -> None:
    assert SCHEMA_VERSION == 1
    held = json.loads(answer_json(full()))
    assert set(held) >= DIAGNOSIS_KEYS
    assert all(set(finding) >= FINDING_KEYS for finding in held["findings"])
    assert set(json.loads(answer_json(less_work()))) >= COMPARISON_KEYS


def test_an_answer_reads_back_as_the_record_it_was() -> None:
    for record, kind in ((full(), Diagnosis), (less_work(), Comparison)):
        held = json.loads(answer_json(record))
        assert held.pop("schema_version") == SCHEMA_VERSION
        assert kind.model_validate(held) == record


def test_a_number_that_is_none_stays_readable_json() -> None:
    held = full()
    row = held.phases[0].model_copy(update={"share": float("nan")})
    text = answer_json(held.model_copy(update={"phases": (row,)}))
    assert json.loads(text, parse_constant=lambda name: f"bare {name}")["phases"][0]["share"] == "NaN"
