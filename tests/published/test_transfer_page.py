"""docs/design/transfer.md speaks of every lever, and of public runs that exist."""

import re
from pathlib import Path

from steptune.engine.knobs import EngineKnobs
from steptune.published.runs import published_runs

PAGE = (Path(__file__).parents[2] / "docs" / "design" / "transfer.md").read_text(encoding="utf-8")

WHOLE_STEP = re.compile(r"`(nemo-v[0-9][A-Za-z0-9._-]+|verl-fa[A-Za-z0-9._-]+|verl-bshd[A-Za-z0-9._-]+)`")
"""Cited runs whose number is a whole step: these ship. A name may be the beginning of several ids."""


def test_every_lever_of_the_engine_is_on_the_page() -> None:
    assert [knob for knob in EngineKnobs.model_fields if f"`{knob}`" not in PAGE] == []


def test_every_whole_step_the_page_cites_is_in_the_shipped_table() -> None:
    known = [run.id for run in published_runs()]
    cited = WHOLE_STEP.findall(PAGE)
    assert len(cited) >= 7
    assert [name for name in cited if not any(run.startswith(name) for run in known)] == []
