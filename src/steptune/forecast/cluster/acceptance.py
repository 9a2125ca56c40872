"""Dynamic sampling: groups whose rewards are all alike teach nothing and are made again (DAPO, arXiv 2503.14476).

With acceptance p, a step that needs P groups asks for P in every round until P were accepted::

    P(done within r rounds) = P(Binomial(r P, p) >= P)

The surprise: a mean acceptance of 0.5 is not two rounds. Half the time the second round falls short of P by a few
groups and a third is run, nearly all of it for nothing.
"""

import math

from steptune.core.errors import explain
from steptune.forecast.curve import ForecastError

NEGLIGIBLE = 1e-6
"""Probability of still not being done below which a tail of rounds is dropped."""


def round_distribution(num_groups: int, acceptance: float, max_rounds: int) -> tuple[float, ...]:
    """Return P(rounds = 1), P(rounds = 2), ...; the last takes what is left, as a job gives up there.

    Raises:
        ForecastError: no groups, an acceptance outside 0 to 1, or no round allowed.
    """
    if num_groups < 1 or not 0 < acceptance <= 1 or max_rounds < 1:
        raise ForecastError(
            explain(
                "rounds of dynamic sampling cannot be forecast",
                got=f"{num_groups} groups, acceptance {acceptance}, at most {max_rounds} rounds",
                allowed="1 or more groups and rounds, an acceptance above 0 and up to 1",
                hint="a job that accepts nothing does not learn: see `steptune diagnose`",
            )
        )
    chances: list[float] = []
    before = 0.0
    for rounds in range(1, max_rounds):
        within = at_least(rounds * num_groups, acceptance, num_groups)
        chances.append(max(within - before, 0.0))
        before = within
        if 1 - within < NEGLIGIBLE:
            break
    return (*chances, max(1 - before, 0.0))


def expected_rounds(num_groups: int, acceptance: float, max_rounds: int) -> float:
    """Return the mean number of rounds."""
    chances = round_distribution(num_groups, acceptance, max_rounds)
    return math.fsum(i * p for i, p in enumerate(chances, start=1))


def groups_made(num_groups: int, acceptance: float) -> float:
    """Return the groups that a *stream* of prompts makes per step: it stops at the last one accepted, P / p.

    The mean of a negative binomial, failures included; no round is wasted.
    """
    return num_groups / acceptance


def at_least(trials: int, chance: float, wanted: int) -> float:
    """Return P(Binomial(trials, chance) >= wanted), summed in logs.

    >>> at_least(4, 0.5, 2)
    0.6875
    """
    if wanted <= 0 or chance >= 1:
        return 1.0 if wanted <= trials else 0.0
    terms = [
        math.exp(
            math.lgamma(trials + 1)
            - math.lgamma(k + 1)
            - math.lgamma(trials - k + 1)
            + k * math.log(chance)
            + (trials - k) * math.log1p(-chance)
        )
        for k in range(wanted, trials + 1)
    ]
    return round(min(1.0, math.fsum(terms)), 12)
