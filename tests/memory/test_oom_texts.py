import tomllib
from pathlib import Path
from typing import Any

import pytest

from steptune.core.finding import FindingKind, Severity
from steptune.memory.advise import PHASE_WORDS, memory_findings
from steptune.memory.figures import read_figures
from steptune.memory.tables import frame_signs, remedy_rules, text_signs

CASES: list[dict[str, Any]] = tomllib.loads((Path(__file__).parent / "oom_texts.toml").read_text(encoding="utf-8"))[
    "case"
]
FIGURES = ("needed_gib", "free_gib", "capacity_gib", "unallocated_gib", "others_gib", "node_used_gib", "node_total_gib")


def test_at_least_25_real_texts_are_kept_with_their_link() -> None:
    assert sum(case.get("is_quoted", True) for case in CASES) >= 25
    assert all(case["source"].startswith("https://") for case in CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c["source"].split(".com/")[1])
def test_a_real_text_names_its_phase(case: dict[str, Any], oom_paste: Any) -> None:
    paste = oom_paste(case["text"], frames=case["frames"], framework=case.get("framework"))
    (finding,) = memory_findings(paste)
    assert finding.code == f"oom/{case['phase']}"
    assert finding.kind is FindingKind.MEMORY
    assert finding.severity is Severity.FAULT
    assert finding.evidence[0].origin == paste.excerpts[0].origin


@pytest.mark.parametrize("case", CASES, ids=lambda c: c["source"].split(".com/")[1])
def test_the_numbers_of_a_real_text_are_read(case: dict[str, Any]) -> None:
    figures = read_figures(case["text"])
    for name in FIGURES:
        if name in case:
            assert getattr(figures, name) == pytest.approx(case[name], rel=5e-3, abs=5e-4), name


@pytest.mark.parametrize("case", CASES, ids=lambda c: c["source"].split(".com/")[1])
def test_every_phase_gets_a_remedy(case: dict[str, Any], oom_paste: Any) -> None:
    (finding,) = memory_findings(oom_paste(case["text"], frames=case["frames"], framework=case.get("framework")))
    assert [remedy for remedy in finding.remedies if remedy.keeps_algorithm]
    assert all(remedy.source.startswith("https://") for remedy in finding.remedies)


def test_every_row_of_the_tables_names_its_source() -> None:
    rows = (*text_signs(), *frame_signs(), *remedy_rules())
    assert all(row.source.startswith("https://") for row in rows)


def test_every_phase_a_sign_names_has_words_and_a_remedy() -> None:
    phases = {sign.phase for sign in (*text_signs(), *frame_signs()) if sign.phase}
    assert phases <= set(PHASE_WORDS)
    treated = {phase for rule in remedy_rules() for phase in rule.phases}
    assert phases <= treated <= set(PHASE_WORDS)


@pytest.mark.parametrize(
    "text",
    [
        "0 Workers (tasks / actors) killed due to memory pressure (OOM), 2 Workers crashed due to other reasons",
        "INFO gpu_worker.py:115 Sleep mode freed 51.57 GiB memory, 49.25 GiB memory is still in use.",
        "WARNING: expandable_segments is recommended against out of memory errors",
        "step:3 - perf/max_memory_allocated_gb:67.4",
    ],
)
def test_a_line_that_only_sounds_like_it_is_no_failure(text: str, oom_paste: Any) -> None:
    assert not [finding for finding in memory_findings(oom_paste(text)) if finding.code.startswith("oom/")]
