"""The committed table of what the linter says about shipped examples has nothing unexplained, and no dead reasons."""

import json
import re
import tomllib
from pathlib import Path

from steptune.lint.load import frameworks, rule_set

BENCH = Path(__file__).parents[2] / "bench"
TABLE = json.loads((BENCH / "results" / "lint.json").read_text(encoding="utf-8"))
EXPLAINED = tomllib.loads((BENCH / "lint_explained.toml").read_text(encoding="utf-8"))["explained"]

KINDS_OF_REASON = ("true", "intended", "out of reach")


def test_every_finding_of_weight_on_a_shipped_file_is_explained() -> None:
    for framework, result in TABLE.items():
        assert re.fullmatch(r"[0-9a-f]{7,40}", result["commit"]), framework
        assert result["unexplained"] == 0, framework
        assert all(line["explained"].startswith(KINDS_OF_REASON) for line in result["findings"])


def test_all_eight_frameworks_were_read() -> None:
    assert {"nemo_rl", "verl", "trl", "prime_rl", "slime", "skyrl", "openrlhf", "areal"} <= set(TABLE)
    assert TABLE["nemo_rl"]["files"] > 300
    assert TABLE["verl"]["files"] > 100
    assert all(result["files_with_settings"] > 0.7 * result["files"] for result in TABLE.values())


def test_every_reason_is_for_a_finding_that_is_there() -> None:
    found = {(line["code"], line["file"]) for result in TABLE.values() for line in result["findings"]}
    reasons = {(entry["code"], file) for entry in EXPLAINED for file in entry["files"]}
    assert reasons == found


def test_every_code_in_the_table_is_a_rule() -> None:
    codes = {f"lint/{name}/{rule.id}" for name in frameworks() for rule in rule_set(name).rules}
    assert {line["code"] for result in TABLE.values() for line in result["findings"]} <= codes
