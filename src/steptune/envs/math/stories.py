"""Two-step word problems. A story is one expression in words, so it shares that expression's side."""

from typing import Final

from steptune.envs.math.draws import Draws
from steptune.envs.math.expressions import (
    FACTOR_MAX,
    FACTOR_MIN,
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

START_MIN, START_MAX = 10, 30
"""Things a story starts with."""


def sum_story(draws: Draws) -> tuple[Expression, str]:
    """Draw ``Tom has 12 apples, buys 5 and loses 3. How many?`` with its expression."""
    start = draws.between(START_MIN, START_MAX)
    first = signed(draws, TERM_MAX)
    second = signed(draws, min(start + first, TERM_MAX))
    text = f"{draws.choice(NAMES)}{HAS}{start}{draws.choice(THINGS)}{THEN}{_told(draws, first)}{AND}"
    return sum_of([start, first, second]), f"{text}{_told(draws, second)}{QUESTION}"


def product_story(draws: Draws) -> tuple[Expression, str]:
    """Draw ``Tom has 4 boxes of 12 apples and loses 3. How many?`` with its expression."""
    boxes, size = draws.between(FACTOR_MIN, FACTOR_MAX), draws.between(FACTOR_MIN, FACTOR_MAX)
    event = signed(draws, min(boxes * size, TERM_MAX))
    things = f"{boxes}{BOXES}{size}{draws.choice(THINGS)}"
    text = f"{draws.choice(NAMES)}{HAS}{things}{AND}{_told(draws, event)}{QUESTION}"
    return product_of(boxes, size, event), text


def _told(draws: Draws, event: int) -> str:
    return f"{draws.choice(GAINS if event > 0 else LOSSES)}{abs(event)}"
