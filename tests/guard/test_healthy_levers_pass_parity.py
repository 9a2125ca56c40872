"""Levers that change nothing stay inside the band: every layout and micro-batch, one rank and two, of every family.

A baseline may have any layout itself. `bench/parity.py` does the same at the examples' size.
"""

from functools import partial
from pathlib import Path

import pytest
from parity_cases import Recorded, record
from rank_cases import MODELS, InlineRank

from steptune.core.verdict import Judgement
from steptune.engine import parity
from steptune.engine.trainer import Trainer

LAYOUTS = ("padded", "sorted", "packed", "shared_prefix")
LEVERS = [
    (family, layout)
    for family in MODELS
    for layout in LAYOUTS
    if not (family == "hybrid" and layout == "shared_prefix")
]
MICRO_BATCH_TOKENS = (24, 8192)
"""From one or two rows a micro-batch, which splits every group, to one micro-batch an update."""


@pytest.fixture(scope="module")
def recorded_of(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Recorded]:
    return {family: record(tmp_path_factory.mktemp(family), model, num_batches=2) for family, model in MODELS.items()}


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize(("family", "layout"), LEVERS)
def test_a_layout_in_micro_batches_of_any_size_is_the_same_update(
    recorded_of: dict[str, Recorded], family: str, layout: str, ranks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parity, "Trainer", partial(Trainer, start_rank=InlineRank))
    for tokens in MICRO_BATCH_TOKENS:
        verdict = recorded_of[family].replayed(layout=layout, micro_batch_tokens=tokens, train_ranks=ranks)
        assert verdict.judgement is Judgement.PASS, f"{tokens} tokens: {verdict.because}"


@pytest.mark.parametrize("knobs", [{"recompute": True}, {"head_tile_tokens": 8}], ids=lambda knobs: next(iter(knobs)))
def test_recomputation_and_tiles_are_the_same_update(
    recorded_of: dict[str, Recorded], knobs: dict[str, object]
) -> None:
    assert recorded_of["dense"].replayed(layout="packed", **knobs).judgement is Judgement.PASS


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_baseline_of_any_layout_passes_the_others(
    layout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # rows of equal length are all that shuffling moves where rows are sorted: the band is next to nothing
    monkeypatch.setattr(parity, "Trainer", partial(Trainer, start_rank=InlineRank))
    recorded = record(tmp_path, num_batches=2, layout=layout, micro_batch_tokens=8192)
    for other in LAYOUTS:
        verdict = recorded.replayed(layout=other, micro_batch_tokens=32)
        assert verdict.judgement is Judgement.PASS, f"{other}: {verdict.because}"
