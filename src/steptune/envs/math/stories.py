"""Two-step word problems. A story is one expression in words, so it shares that expression's side."""

from typing import Final

from steptune.envs.math.draws import Draws
from steptune.envs.math.expressions import (
    FACTOR_MAX,
    FACTOR_MIN,
    START_MAX,
    TERM_MAX,
    Expression,
    product_of,
    signed,
    sum_of,
)

NAMES: Final = ("Ann", "Ben", "Eva", "Kim", "Leo", "Mia", "Sam", "Tom")
THINGS: Final = (" apples", " books", " cards", " coins", " eggs", " pens", " shells", " stamps")
GAINS: Final = ("buys ", "finds ", "gets ")
LOSSES: Final = ("loses ", "sells ", "uses ")
HAS: Final = " has "
BOXES: Final = " boxes of "
THEN: Final = ", "
AND: Final = " and "
QUESTION: Final = ". How many?"

STORY_PIECES: Final = (*NAMES, *THINGS, *GAINS, *LOSSES, HAS, BOXES, THEN, AND, QUESTION)
"""Every phrase a story is made of, as the tokenizer knows it."""

START_MIN = 10
"""Things a story of two events starts with at least: more than the first event can take away."""


def pair_story(draws: Draws) -> tuple[Expression, str]:
    """Draw ``Tom has 12 apples and buys 5. How many?`` with its expression."""
    start = draws.between(1, START_MAX)
    event = signed(draws, min(start, TERM_MAX))
    return sum_of([start, event]), f"{_opening(draws, start)}{AND}{_told(draws, event)}{QUESTION}"


def sum_story(draws: Draws) -> tuple[Expression, str]:
    """Draw ``Tom has 12 apples, buys 5 and loses 3. How many?`` with its expression."""
    start = draws.between(START_MIN, START_MAX)
    first = signed(draws, TERM_MAX)
    second = signed(draws, min(start + first, TERM_MAX))
    events = f"{THEN}{_told(draws, first)}{AND}{_told(draws, second)}"
    return sum_of([start, first, second]), f"{_opening(draws, start)}{events}{QUESTION}"


def product_story(draws: Draws) -> tuple[Expression, str]:
    """Draw ``Tom has 4 boxes of 6 apples and loses 3. How many?`` with its expression."""
    boxes, size = draws.between(FACTOR_MIN, FACTOR_MAX), draws.between(FACTOR_MIN, FACTOR_MAX)
    event = signed(draws, min(boxes * size, TERM_MAX))
    opening = _opening(draws, f"{boxes}{BOXES}{size}")
    return product_of(boxes, size, event), f"{opening}{AND}{_told(draws, event)}{QUESTION}"


def _opening(draws: Draws, amount: int | str) -> str:
    return f"{draws.choice(NAMES)}{HAS}{amount}{draws.choice(THINGS)}"


def _told(draws: Draws, event: int) -> str:
    return f"{draws.choice(GAINS if event > 0 else LOSSES)}{abs(event)}"
