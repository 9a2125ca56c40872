"""Every shape against the count that its model card publishes; the cards' addresses are `source` in models.toml."""

import pytest

from steptune.shapes.count import parameters
from steptune.shapes.registry import NamedModel, models

TOTAL_TOLERANCE_FRAC = 0.0125
"""Cards round to two or three digits (1.7 for 1.72) and some count one layer more that predicts further tokens."""

ACTIVE_ROUNDING_B = 0.6
"""Cards state active parameters in whole or tenths of 1e9, with or without embedding and head."""

COUNTED = [model for model in models() if model.published_b is not None]
SPARSE = [model for model in models() if model.published_active_b is not None]


@pytest.mark.parametrize("model", COUNTED, ids=lambda model: model.names[0])
def test_the_parameters_are_those_that_the_card_states(model: NamedModel) -> None:
    assert model.published_b is not None
    assert parameters(model.shape()).total / 1e9 == pytest.approx(model.published_b, rel=TOTAL_TOLERANCE_FRAC)


@pytest.mark.parametrize("model", SPARSE, ids=lambda model: model.names[0])
def test_the_active_parameters_are_those_that_the_card_states(model: NamedModel) -> None:
    assert model.published_active_b is not None
    count = parameters(model.shape())
    low, high = count.active_backbone / 1e9 - ACTIVE_ROUNDING_B, count.active / 1e9 + ACTIVE_ROUNDING_B
    assert low <= model.published_active_b <= high


def test_enough_models_are_checked() -> None:
    assert len(COUNTED) >= 45
    assert len(SPARSE) >= 15
    assert all(model.source.startswith("https://huggingface.co/") for model in models())
