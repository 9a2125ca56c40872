"""How long the arms run that are launched after the search: what the stages do, and what the reserve counts."""

from steptune.trial.blocks import BlockPlan

WATERFALL_PLAN = BlockPlan(max_pairs=4, kept_steps=2)
"""Rounds over all rows of the waterfall: 8 steps, one turn of the reference lengths that the forecasts average."""

CONFIRM_PLAN = BlockPlan(max_pairs=2, kept_steps=3)
"""Rounds over baseline, best practice and winner in one launch: there and back, so that drift falls on all alike."""

RAW_PLAN = BlockPlan(max_pairs=2, kept_steps=3)
"""Rounds over baseline and winner at natural lengths."""
