"""What may stand in `bench/results/gpu/`: whole runs on a CUDA device, losing ones included, and nothing else."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpu.acceptance import problems, read
from gpu.contents import CHECKS, NEEDS_CUDA
from gpu.published import lines
from gpu.record import GpuResult, arm, ratio
from gpu.show import shown

BENCH = Path(__file__).parents[3] / "bench"
RESULTS = BENCH / "results" / "gpu"
Edit = Callable[[dict[str, Any]], object]


def refused(good: GpuResult, edit: Edit) -> list[str]:
    """Return what is said of a file that was changed."""
    fields = json.loads(good.model_dump_json())
    edit(fields)
    found, malformed = read(json.dumps(fields))
    return malformed if found is None else problems(found)


def test_a_whole_run_that_lost_is_taken(good: GpuResult) -> None:
    assert refused(good, lambda fields: None) == []
    # 0.50 / 0.60 = 0.833
    assert re.search(r"all over none: x0\.833 \(0\.8.* to 0\.8.*, n 3\), slower", shown(good))


def test_what_others_published_stands_beside_ours_without_a_claim(good: GpuResult) -> None:
    times = {"none": [0.50, 0.51, 0.49], "none_again": [0.51, 0.50, 0.49], "metadata": [0.40, 0.41, 0.39]}
    arms = {name: arm(name, times_s, 2**33) for name, times_s in times.items()}
    ratios = tuple(ratio(arms[name], arms["none"]) for name in ("none_again", "metadata"))
    table = good.tables[0].model_copy(update={"arms": tuple(arms.values()), "ratios": ratios})
    said = lines(good.model_copy(update={"tables": (table,)}))
    assert "batch +14.3 %" in said[0]
    assert "ours +25.0 % (" in said[0]
    assert said[1].endswith("ours not measured on a GPU")
    assert "only the sign can be compared" in said[-1]


def test_a_run_whose_check_failed_is_taken_if_its_parts_were_dropped(good: GpuResult) -> None:
    def fail(fields: dict[str, Any]) -> None:
        check = next(c for c in fields["checks"] if c["name"] == "model_moe")
        check |= {"outcome": "fail", "difference": None, "reason": "RuntimeError: no such kernel"}

    assert refused(good, fail) == []


MALFORMED: dict[str, tuple[Edit, str]] = {
    "a NaN": (lambda f: f["ceilings"].update(memory_bytes_per_s="NaN"), "ceilings.memory_bytes_per_s"),
    "infinity": (lambda f: f.update(took_s="Infinity"), "took_s"),
    "a negative time": (lambda f: f["tables"][0]["arms"][0]["times_s"].insert(0, -0.5), "greater than 0"),
    "too few turns": (lambda f: f["tables"][0]["arms"][0].update(times_s=[0.5, 0.5]), "at least 3 items"),
    "an interval beside its value": (
        lambda f: f["tables"][0]["ratios"][1].update(low=0.9, high=1.0),
        "must contain its ratio",
    ),
    "a ratio its times do not give": (
        lambda f: f["tables"][0]["ratios"][1].update(value=1.2, low=1.1, high=1.3),
        "is not what the times give",
    ),
    "a prettier median": (lambda f: f["tables"][0]["arms"][2].update(median_s=0.5), "is not what the times give"),
    "an arm that is not there": (lambda f: f["tables"][0]["ratios"][0].update(candidate="x"), "does not have"),
    "a pass above its tolerance": (lambda f: f["checks"][0].update(difference=1.0), "cannot have passed"),
    "a pass without a number": (lambda f: f["checks"][0].update(difference=None), "cannot have passed"),
    "a check without a reason": (lambda f: f["checks"][0].update(reason=""), "checks.0.reason"),
    "a field nobody knows": (lambda f: f.update(speedup=2), "speedup"),
    "another schema": (lambda f: f.update(schema_version=2), "schema_version"),
    "a date without a zone": (lambda f: f.update(date="2026-11-30T12:00:00"), "date"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_file_is_refused_with_what_got_allowed_and_hint(good: GpuResult, name: str) -> None:
    edit, says = MALFORMED[name]
    said = refused(good, edit)
    assert any(says in line for line in said), said
    assert all(", got " in line and "; allowed: " in line and "; hint: " in line for line in said)


def as_cpu(fields: dict[str, Any]) -> None:
    """Skip what needs CUDA, as a CPU does, and say CUDA all the same."""
    for check in fields["checks"]:
        if check["name"] in NEEDS_CUDA:
            check["outcome"] = "skip"


UNACCEPTABLE: dict[str, tuple[Edit, str]] = {
    "a CPU": (lambda f: f["machine"].update(device_kind="cpu"), "not a run on a GPU"),
    "a CPU's checks": (as_cpu, "nothing that only a GPU can do was run"),
    "a CPU's torch": (lambda f: f["machine"].update(torch="2.13.0+cpu"), "known by its driver"),
    "no driver": (lambda f: f["machine"].update(driver=None), "unknown: driver"),
    "a CPU's memory": (lambda f: f["ceilings"].update(memory_bytes_per_s=2e10), "this memory is a CPU's"),
    "memory not counted": (lambda f: f["tables"][0]["arms"][0].update(peak_bytes=None), "counts memory"),
    "tiny sizes": (lambda f: f.update(is_tiny=True), "tiny sizes"),
    "local changes": (lambda f: f.update(is_tree_clean=False), "nobody could run this code again"),
    "no commit": (lambda f: f.update(git_commit=None), "nobody could run this code again"),
    "a missing check": (lambda f: f["checks"].pop(0), "missing: attention_varlen_bf16"),
    "a check twice": (lambda f: f["checks"].append(f["checks"][0]), "twice or unknown: attention_varlen_bf16"),
    "a part without a word": (lambda f: f["dropped"].pop(0), "not a word of: metadata_layer"),
    "a part nobody knows": (lambda f: f["dropped"].append({"part": "x", "reason": "y"}), "unknown: x"),
    "a table without noise": (lambda f: f["tables"][0]["ratios"].pop(0), "judged against noise"),
    "a distance to nowhere": (lambda f: f.update(ceilings=None), "a distance has two ends"),
    "speed of a wrong result": (
        lambda f: next(c for c in f["checks"] if c["name"] == "model_dense").update(outcome="fail"),
        "a wrong result has no speed",
    ),
}


@pytest.mark.parametrize("name", UNACCEPTABLE)
def test_what_would_mislead_is_refused_with_what_got_allowed_and_hint(good: GpuResult, name: str) -> None:
    edit, says = UNACCEPTABLE[name]
    said = refused(good, edit)
    assert any(says in line for line in said), said
    assert all(", got " in line and "; allowed: " in line and "; hint: " in line for line in said)


@pytest.mark.parametrize("text", ["", "[]", "{", "null", '{"schema_version": 1}'])
def test_what_is_no_such_file_is_refused_and_not_a_crash(text: str) -> None:
    found, said = read(text)
    assert found is None
    assert said


def test_every_committed_result_is_fine_and_the_guide_says_how_many_there_are() -> None:
    files = sorted(RESULTS.glob("*.json"))
    said = {path.name: [*read(path.read_text())[1], *map_problems(path)] for path in files}
    assert said == {path.name: [] for path in files}
    guide = (BENCH.parent / "docs" / "guides" / "gpu.md").read_text()
    runs = "no run" if not files else f"{len(files)} run" + "s" * (len(files) > 1)
    assert f"**{runs} so far**" in guide  # with no file yet, this is what the test holds
    assert f"First {len(CHECKS)} checks compare" in guide


def map_problems(path: Path) -> list[str]:
    """Return why a well-formed file may not stand there."""
    found, _ = read(path.read_text())
    return [] if found is None else problems(found)


def test_the_validator_runs_without_torch_and_tells_good_from_bad(good: GpuResult, tmp_path: Path) -> None:
    (tmp_path / "good.json").write_text(good.model_dump_json())
    (tmp_path / "bad.json").write_text(good.model_copy(update={"is_tiny": True}).model_dump_json())
    code = (
        "import runpy, sys; sys.modules['torch'] = None; sys.argv = sys.argv[1:];"
        "runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    script = str(BENCH / "gpu" / "validate.py")

    def validated(*names: str) -> subprocess.CompletedProcess[str]:
        paths = [str(tmp_path / name) for name in names]
        return subprocess.run([sys.executable, "-c", code, script, *paths], capture_output=True, text=True, check=False)

    assert validated("good.json").returncode == 0
    both = validated("good.json", "bad.json", "none.json")
    assert both.returncode == 1
    assert "good.json: fine" in both.stdout
    assert "bad.json: refused\n  tiny sizes measure nothing" in both.stdout
    assert "none.json: refused\n  cannot be read" in both.stdout
    assert validated().returncode == 2
