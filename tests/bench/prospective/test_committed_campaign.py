"""Committed campaigns: chains hold, each forecast stands before its trial, a score is what its file says."""

import json
from pathlib import Path

import pytest

from prospective.campaign_journal import CampaignLine
from prospective.campaign_score import order_problems, score_campaign
from prospective.frozen import LISTS, JobList
from steptune.store.journal import read_lines

RESULTS = Path(__file__).parents[3] / "bench" / "results"


def test_the_first_campaign_is_committed() -> None:
    assert (RESULTS / LISTS[1].results / "journal.jsonl").exists()


@pytest.mark.parametrize("chosen", LISTS.values(), ids=lambda chosen: chosen.results)
def test_a_committed_campaign_scores_as_its_file_says(chosen: JobList) -> None:
    journal, saved = RESULTS / chosen.results / "journal.jsonl", RESULTS / f"{chosen.results}.json"
    assert journal.exists() == saved.exists()
    if not journal.exists():
        return
    events = [entry.body for entry in read_lines(journal, CampaignLine)]
    assert order_problems(events) == []
    score = json.loads(saved.read_text(encoding="utf-8"))["score"]
    assert json.loads(score_campaign(events, chosen.frozen()).model_dump_json()) == score
