"""The sums behind the problems: text, canonical key, worked steps and answer of one expression.

Every expression is worked the same way, its leftmost operation first and the rest copied::

    7*8+5-3  =  56+5-3  =  61-3  =  58

So one skill serves sums, products and stories, and long expressions have much longer workings than short ones.
Partial results stay at or above zero.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from steptune.envs.math.draws import Draws

START_MAX = 30
"""Largest first operand of a pair or a story."""

TERM_MAX = 9
"""Largest term of a sum: what is left to learn is adding a digit to a number, and products of digits."""

MIN_TERMS, MAX_TERMS = 3, 6
"""Terms of a sum. Each further term is half as likely as the one before: the long tail of lengths."""

LONG_TERM_MAX = 60
"""Largest term of a long sum."""

MIN_LONG_TERMS, MAX_LONG_TERMS = 4, 5
"""Terms of a long sum."""

FACTOR_MIN, FACTOR_MAX = 2, 9
"""Factors of a product."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Expression:
    """One sum: ``Expression(key="sum -5 3 8", steps=("3+8-5", "11-5", "6"), answer=6)``."""

    key: str
    """The same for expressions that differ only in the order of commuting operands."""
    steps: tuple[str, ...]
    """The expression itself and after each operation; ends in the answer."""
    answer: int

    @property
    def text(self) -> str:
        """The expression as it is asked for."""
        return self.steps[0]


def sum_of(terms: Sequence[int]) -> Expression:
    """Return the sum of two or more signed terms."""
    key = "sum " + " ".join(map(str, sorted(terms)))
    totals = accumulate(terms)
    steps = tuple(_chain([total, *terms[i + 1 :]]) for i, total in enumerate(totals))
    return Expression(key=key, steps=steps, answer=sum(terms))


def product_of(a: int, b: int, c: int) -> Expression:
    """Return a * b + c."""
    steps = (f"{a}*{b}{c:+d}", _chain([a * b, c]), f"{a * b + c}")
    return Expression(key=f"product {min(a, b)} {max(a, b)} {c}", steps=steps, answer=a * b + c)


def pair(draws: Draws) -> Expression:
    """Draw a number and one digit, added or taken away."""
    start = draws.between(1, START_MAX)
    return sum_of([start, signed(draws, min(start, TERM_MAX))])


def short_sum(draws: Draws) -> Expression:
    """Draw a sum of one-digit terms."""
    num_terms = MIN_TERMS
    while num_terms < MAX_TERMS and draws.below(2):
        num_terms += 1
    return sum_of(_terms(draws, num_terms, TERM_MAX))


def long_sum(draws: Draws) -> Expression:
    """Draw a sum of two-digit terms."""
    return sum_of(_terms(draws, draws.between(MIN_LONG_TERMS, MAX_LONG_TERMS), LONG_TERM_MAX))


def product(draws: Draws) -> Expression:
    """Draw a * b + c or a * b - c."""
    a, b = draws.between(FACTOR_MIN, FACTOR_MAX), draws.between(FACTOR_MIN, FACTOR_MAX)
    return product_of(a, b, signed(draws, min(a * b, TERM_MAX)))


def signed(draws: Draws, most: int) -> int:
    """Draw a number from 1 to ``most``, half the time negative."""
    return draws.choice((1, -1)) * draws.between(1, most)


def _terms(draws: Draws, num_terms: int, term_max: int) -> list[int]:
    """Draw terms, half of them subtracted where the running total allows it."""
    terms = [draws.between(1, term_max)]
    for _ in range(num_terms - 1):
        term = signed(draws, term_max)
        terms.append(term if sum(terms) + term >= 0 else -term)
    return terms


def _chain(terms: Sequence[int]) -> str:
    """Return signed terms as text: ``3+8-5``."""
    return f"{terms[0]}" + "".join(f"{term:+d}" for term in terms[1:])
