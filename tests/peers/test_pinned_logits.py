"""The logits that plain tests are held against are still those of the transformers that is installed here."""

import json

import pytest
from hf_reference import FAMILIES, REFERENCE, reference

pytest.importorskip("transformers")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("family", FAMILIES)
def test_transformers_still_gives_the_pinned_logits(family: str) -> None:
    pinned, made = json.loads((REFERENCE / f"{family}.json").read_text()), reference(family)
    assert made["tensors"] == pinned["tensors"]
    assert [row[:2] for row in made["logits"]] == [row[:2] for row in pinned["logits"]]
    for (*_, now), (*_, then) in zip(made["logits"], pinned["logits"], strict=True):
        assert now == pytest.approx(then, abs=1e-5)
