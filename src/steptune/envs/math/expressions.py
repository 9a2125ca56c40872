"""The sums behind the problems: text, canonical key, worked steps and answer of one expression.

Every expression is worked the same way, its leftmost operation first and the rest copied::

    7*8+5-3  =  56+5-3  =  61-3  =  58

So one skill serves sums, products and stories, and long expressions have much longer workings than short ones.
Only a pair is answered at once. Partial results stay at or above zero; the answer of a pair may be negative.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from steptune.envs.math.draws import Draws

PAIR_MAX = 50
"""Largest operand of a pair (3,775 expressions, of which 755 are held out)."""

TERM_MAX = 9
"""Largest term of a sum."""

MIN_TERMS, MAX_TERMS = 3, 6
"""Terms of a sum. Each further term is half as likely as the one before: the long tail of lengths."""

LONG_TERM_MAX = 60
"""Largest term of a long sum."""

MIN_LONG_TERMS, MAX_LONG_TERMS = 4, 5
"""Terms of a long sum."""

FACTOR_MIN, FACTOR_MAX = 2, 12
"""Factors of a product."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Expression:
    """One sum: ``Expression(text="3+8-5", key="sum -5 3 8", working="11-5=6", answer=6)``."""

    text: str
    key: str
    """The same for expressions that differ only in the order of commuting operands."""
    working: str
    """The expression after each operation, joined by ``=``; ends in the answer."""
    answer: int


def sum_of(terms: Sequence[int]) -> Expression:
    """Return the sum of two or more signed terms."""
    key = "sum " + " ".join(map(str, sorted(terms)))
    totals = accumulate(terms[1:], initial=terms[0])
    return Expression(text=chain(terms), key=key, working=_worked(totals, terms[1:]), answer=sum(terms))


def product_of(a: int, b: int, c: int) -> Expression:
    """Return a * b + c."""
    key = f"product {min(a, b)} {max(a, b)} {c}"
    working = f"{a * b}{c:+d}={a * b + c}"
    return Expression(text=f"{a}*{b}{c:+d}", key=key, working=working, answer=a * b + c)


def pair(draws: Draws) -> Expression:
    """Draw a sum or difference of two numbers up to `PAIR_MAX`."""
    a, b = draws.between(1, PAIR_MAX), draws.between(1, PAIR_MAX)
    return sum_of([a, draws.choice((b, -b))])


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


def chain(terms: Sequence[int]) -> str:
    """Return signed terms as text: ``3+8-5``."""
    return f"{terms[0]}" + "".join(f"{term:+d}" for term in terms[1:])


def _terms(draws: Draws, num_terms: int, term_max: int) -> list[int]:
    """Draw terms, half of them subtracted where the running total allows it."""
    terms = [draws.between(1, term_max)]
    for _ in range(num_terms - 1):
        term = signed(draws, term_max)
        terms.append(term if sum(terms) + term >= 0 else -term)
    return terms


def _worked(totals: Iterable[int], rest: Sequence[int]) -> str:
    left = [chain([total, *rest[done:]]) for done, total in enumerate(totals)]
    return "=".join(left[1:])
