"""The sums behind the problems: text, canonical key, worked steps and answer of one expression.

Every partial result stays at or above zero except in a plain pair, so that workings are short.
"""

from dataclasses import dataclass
from itertools import accumulate

from steptune.envs.math.draws import Draws

PAIR_MAX = 99
"""Largest operand of a level 1 pair."""

TERM_MAX = 19
"""Largest term of a running sum."""

LONG_TERM_MAX = 60
"""Largest term of a long sum."""

MIN_TERMS, MAX_TERMS = 3, 8
"""Terms of a running sum. Each further term is half as likely as the one before: the long tail of lengths."""

MIN_LONG_TERMS = 5
"""Terms of a long sum start here."""

FACTOR_MIN, FACTOR_MAX = 2, 12
"""Factors of a product."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Expression:
    """One sum: ``Expression(text="3+8-5", key="sum -5 3 8", working="11,6", answer=6)``."""

    text: str
    key: str
    """The same for expressions that differ only in the order of commuting operands."""
    working: str
    """Worked steps, empty where the answer is given at once."""
    answer: int


def sum_of(terms: list[int]) -> Expression:
    """Return the sum of signed ``terms``, worked by its running totals (a pair has none)."""
    text = "".join(f"{term:+d}" for term in terms).removeprefix("+")
    totals = list(accumulate(terms))[1:]
    working = ",".join(map(str, totals)) if len(terms) > 2 else ""
    return Expression(text=text, key=sum_key(terms), working=working, answer=totals[-1])


def sum_key(terms: list[int]) -> str:
    """Return the canonical key of a sum of signed terms."""
    return "sum " + " ".join(map(str, sorted(terms)))


def product_key(a: int, b: int, c: int) -> str:
    """Return the canonical key of a * b + c."""
    return f"product {min(a, b)} {max(a, b)} {c}"


def pair(draws: Draws) -> Expression:
    """Draw a sum or difference of two numbers up to `PAIR_MAX`; the answer may be negative."""
    a, b = draws.between(1, PAIR_MAX), draws.between(1, PAIR_MAX)
    return sum_of([a, draws.choice((b, -b))])


def running_sum(draws: Draws) -> Expression:
    """Draw a sum of small terms."""
    num_terms = MIN_TERMS
    while num_terms < MAX_TERMS and draws.below(2):
        num_terms += 1
    return sum_of(signed_terms(draws, num_terms, TERM_MAX))


def long_sum(draws: Draws) -> Expression:
    """Draw a sum of many two-digit terms."""
    return sum_of(signed_terms(draws, draws.between(MIN_LONG_TERMS, MAX_TERMS), LONG_TERM_MAX))


def signed_terms(draws: Draws, num_terms: int, term_max: int) -> list[int]:
    """Draw terms, a third of them subtracted where the running total allows it."""
    terms = [draws.between(1, term_max)]
    total = terms[0]
    for _ in range(num_terms - 1):
        size = draws.between(1, term_max)
        terms.append(-size if draws.below(3) == 0 and size <= total else size)
        total += terms[-1]
    return terms


def product(draws: Draws) -> Expression:
    """Draw a * b + c or a * b - c, worked like a sum: ``56,61`` for ``7*8+5``."""
    a, b = draws.between(FACTOR_MIN, FACTOR_MAX), draws.between(FACTOR_MIN, FACTOR_MAX)
    c = signed(draws, min(a * b, TERM_MAX))
    return product_of(a, b, c)


def product_of(a: int, b: int, c: int) -> Expression:
    """Return a * b + c."""
    working = f"{a * b},{a * b + c}"
    return Expression(text=f"{a}*{b}{c:+d}", key=product_key(a, b, c), working=working, answer=a * b + c)


def signed(draws: Draws, most: int) -> int:
    """Draw a number from 1 to ``most``, half the time negative."""
    return draws.choice((1, -1)) * draws.between(1, most)
