"""The new value of a key: the smallest step that the shortage asks for and the framework accepts.

A micro batch must go on dividing what it divided, so its next value is a divisor of the present one. A token budget
may not fall below one whole sequence. Shares of a card move in steps of 0.05 with some head-room.
"""

import math

from steptune.core.knob import KnobValue
from steptune.memory.figures import Figures
from steptune.memory.settings import View
from steptune.memory.tables import KeyMove

SHARE_STEP = 0.05
"""Step of an engine's memory share; finer settings are within what one run differs from the next."""

HEADROOM_FRAC = 0.02
"""Part of the card left free beyond the stated shortage: the allocator rounds requests up to 2 MiB to 20 MiB blocks
(https://docs.pytorch.org/docs/stable/notes/cuda.html) and late, longer samples need more (needs study: X11, U05)."""

MIN_SHARE, MAX_SHARE = 0.1, 0.95
"""Shares outside leave no room for weights, or none for CUDA graphs and the driver's own context."""

BUDGET_STEP = 256
"""Token budgets are rounded to this many tokens."""


def new_value(move: KeyMove, view: View, figures: Figures) -> KnobValue:
    """Return the value to write, or None where the key is already there or cannot go further."""
    present = view.number(move.key, move.default) if view.is_stated() else None
    if present is None and move.follows:
        present = view.number(move.follows)
    match move.move:
        case "set":
            return None if view.value(move.key, move.default) == move.value else move.value
        case "shrink" | "halve":
            return _shrunk(present, move.value, figures if move.move == "shrink" else Figures())
        case "grow":
            return None if present is None else int(present) * 2
        case "shrink_budget":
            return _budget(present, view.sequence_tokens(), figures)
        case "lower_share":
            return _lower(present, figures)
        case "raise_share":
            return _raise(present)
        case "to_free":
            return _share_of_free(figures)
        case "to_sequence":
            return _sequence(present, view.sequence_tokens(), figures)


def _wanted_frac(figures: Figures) -> float:
    """Return the part that the allocation may keep: free over needed, at most a half where it is not stated."""
    if figures.needed_gib is None or figures.free_gib is None or figures.needed_gib <= 0:
        return 0.5
    if figures.free_gib >= figures.needed_gib:
        return 0.5
    return figures.free_gib / figures.needed_gib


def _shrunk(present: float | None, fallback: KnobValue, figures: Figures) -> KnobValue:
    if present is None:
        return fallback
    if present != int(present) or present <= 1:
        return None
    whole = int(present)
    wanted = max(1.0, whole * _wanted_frac(figures))
    return max(d for d in range(1, whole) if whole % d == 0 and (d <= wanted or d == 1))


def _budget(present: float | None, sequence: int | None, figures: Figures) -> KnobValue:
    if present is None or present < BUDGET_STEP:
        return None
    wanted = int(present * _wanted_frac(figures)) // BUDGET_STEP * BUDGET_STEP
    floor = sequence if sequence is not None else BUDGET_STEP
    value = max(wanted, floor, BUDGET_STEP)
    return value if value < present else None


def _lower(present: float | None, figures: Figures) -> KnobValue:
    if present is None or not MIN_SHARE < present <= 1:
        return None
    shortage, capacity = figures.shortage_gib(), figures.capacity_gib
    drop = 2 * SHARE_STEP
    if shortage is not None and capacity is not None and capacity > 0:
        drop = shortage / capacity + HEADROOM_FRAC
    value = _steps_down(present - drop)
    return value if MIN_SHARE <= value < present else None


def _raise(present: float | None) -> KnobValue:
    if present is None or not 0 < present < MAX_SHARE:
        return None
    return round(min(MAX_SHARE, present + 2 * SHARE_STEP), 2)


def _share_of_free(figures: Figures) -> KnobValue:
    if figures.free_gib is None or not figures.capacity_gib:
        return None
    value = math.floor((figures.free_gib / figures.capacity_gib - HEADROOM_FRAC) * 100) / 100
    return value if value >= MIN_SHARE else None


def _sequence(present: float | None, sequence: int | None, figures: Figures) -> KnobValue:
    if sequence is None or (present is not None and present <= sequence):
        return None
    asked = figures.sequence_tokens
    return sequence if asked is None or sequence < asked else None


def _steps_down(share: float) -> float:
    return round(math.floor(share / SHARE_STEP + 1e-9) * SHARE_STEP, 2)
