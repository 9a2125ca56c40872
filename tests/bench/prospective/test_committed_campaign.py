"""The committed campaign: its chain holds, each forecast stands before its trial, its score is what the file says."""

import json
from pathlib import Path

from prospective.campaign_journal import CampaignLine
from prospective.campaign_score import order_problems, score_campaign
from prospective.frozen import frozen
from steptune.store.journal import read_lines

RESULTS = Path(__file__).parents[3] / "bench" / "results"


def test_the_committed_campaign_scores_as_its_file_says() -> None:
    events = [entry.body for entry in read_lines(RESULTS / "prospective" / "journal.jsonl", CampaignLine)]
    assert order_problems(events) == []
    saved = json.loads((RESULTS / "prospective.json").read_text(encoding="utf-8"))["score"]
    assert json.loads(score_campaign(events, frozen()).model_dump_json()) == saved
