"""Arithmetic and word problems with integer answers, made on demand.

Training and validation can never share a problem: a hash of the *expression* (operands, order and names
ignored) decides which side a problem belongs to, so `3+8`, `8+3` and a story about 3 and 8 apples are one.
A step inside a longer training problem may equal a held-out one: digits are meant to be learnt, sums not.
"""

import hashlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from steptune.core.errors import JobError, explain
from steptune.envs.math.draws import Draws
from steptune.envs.math.expressions import Expression, long_sum, pair, product, short_sum
from steptune.envs.math.stories import pair_story, product_story, sum_story

VALIDATION_SHARE = 5
"""One expression in this many belongs to validation: enough for 2,000 distinct texts at every level from 1 to 3."""

MAX_DRAWS = 2000
"""Draws for one problem before its level is called exhausted; a fresh side needs about 5."""

ANSWER_MARK = "#"
"""Stands before the final answer."""


class Side(Enum):
    """Which stream a problem belongs to. The value separates the streams of random numbers."""

    TRAIN = 0
    VALIDATION = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """One question and its answer.

    Example: ``Problem(text="3+8+5?", answer=16, demonstration="3+8=11+5#16", level=2)``.
    """

    text: str
    """The prompt."""
    answer: int
    demonstration: str
    """A worked completion; the mark ``#`` stands before the answer."""
    level: int
    """1 (a pair) to 4 (long sums)."""


Maker = Callable[[Draws], tuple[Expression, str]]
"""Draws an expression and the text that asks for it."""


def _plain(make: Callable[[Draws], Expression]) -> Maker:
    def maker(draws: Draws) -> tuple[Expression, str]:
        expression = make(draws)
        return expression, f"{expression.text}?"

    return maker


MAKERS: Final[dict[int, tuple[Maker, ...]]] = {
    1: (_plain(pair), pair_story),
    2: (_plain(short_sum),),
    3: (_plain(product), sum_story, product_story),
    4: (_plain(long_sum),),
}
"""Kinds of problem at each level, equally likely."""


def train_problem(workload_seed: int, index: int, levels: Sequence[int]) -> Problem:
    """Return problem ``index`` of the training stream; levels are drawn uniformly.

    Raises:
        JobError: a level does not exist.
    """
    _check_levels(levels)
    draws = Draws(workload_seed, Side.TRAIN.value, index)
    return _draw(draws, draws.choice(levels), Side.TRAIN, ())


def validation_problems(num: int, seed: int, levels: Sequence[int]) -> tuple[Problem, ...]:
    """Return ``num`` validation problems of distinct text, levels taking turns.

    Raises:
        JobError: a level does not exist, or has fewer distinct validation problems than asked for.
    """
    _check_levels(levels)
    found: dict[str, Problem] = {}
    for i in range(num):
        draws = Draws(seed, Side.VALIDATION.value, i)
        problem = _draw(draws, levels[i % len(levels)], Side.VALIDATION, found.keys())
        found[problem.text] = problem
    return tuple(found.values())


def side_of(key: str) -> Side:
    """Return the side that the expression with canonical text ``key`` belongs to."""
    digest = hashlib.sha256(key.encode()).digest()
    return Side.VALIDATION if int.from_bytes(digest[:8], "big") % VALIDATION_SHARE == 0 else Side.TRAIN


def _draw(draws: Draws, level: int, side: Side, seen: Collection[str]) -> Problem:
    for _ in range(MAX_DRAWS):
        expression, text = draws.choice(MAKERS[level])(draws)
        if side_of(expression.key) is side and text not in seen:
            demonstration = f"{expression.working}{ANSWER_MARK}{expression.answer}"
            return Problem(text=text, answer=expression.answer, demonstration=demonstration, level=level)
    raise JobError(
        explain(
            f"`workload.levels` has too few distinct problems at level {level}",
            got=f"{len(seen)} found so far",
            allowed="as many as `workload.num_validation` asks of each level",
            hint="lower `workload.num_validation` or add a level",
        )
    )


def _check_levels(levels: Sequence[int]) -> None:
    unknown = [level for level in levels if level not in MAKERS]
    if unknown or not levels:
        raise JobError(
            explain(
                "`workload.levels` must name existing levels",
                got=list(levels),
                allowed=f"one or more of {sorted(MAKERS)}",
                hint="use [1, 2, 3]",
            )
        )
