"""What one iteration, row, cached token and prompt position of a profiled server cost: fitted on exact counts.

::

    seconds = turn + a x iterations + b x row-iterations + c x cached tokens read + d x positions computed

over equal rows of several numbers and two prompt lengths, and over the job's own batches; none below zero. Nothing is
read while a batch runs. Surprise: a decoded token is a position too, so a row never costs less than a prompt's position
does: that is all that carries the line to more rows than the server was ever given.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from prospective.vllm_messages import BatchTimes, RowsProbe, VllmProfile
from steptune.core.errors import explain
from steptune.forecast.cluster.decode import DecodeCurve
from steptune.forecast.cluster.paged import PagedCosts
from steptune.forecast.curve import ForecastError
from steptune.forecast.decode.fit import solve

RIDGE = 1e-9
"""Part of the diagonal added to the normal equations, so that counts that a profile cannot tell apart divide nothing by
zero."""

NUM_PRICES = 6
"""Fitted constants: the five of the sum, and the time between two requests."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Counted:
    """One measured thing: ``Counted(seconds=0.21, counts=(1, 27, 192, 4512, 248))``."""

    seconds: float
    counts: tuple[float, ...]
    """In the order of the sum above; 1 for the turn."""


def costs(profile: VllmProfile) -> PagedCosts:
    """Return the server's prices.

    Raises:
        ForecastError: there is no probe of one row and one token.
    """
    fastest = _fastest(profile.probes)
    alone = [probe for probe in fastest if probe.tokens == 1 and probe.rows == 1]
    if not alone:
        hint = "profile the incumbent again"
        raise ForecastError(explain("the profile lacks the shortest probe", got="none", allowed="one row", hint=hint))
    used = [_of_probe(probe) for probe in fastest if probe.tokens > 1] + [_of_probe(probe) for probe in alone]
    used += [_of_batch(profile, i) for i, batch in enumerate(profile.batches) if not batch.num_preemptions]
    turn_s, iteration_s, row_s, cached_s, position_s = non_negative(used)
    one_s = row_s + position_s
    return PagedCosts(
        decode=DecodeCurve(
            rows=(1.0, 2.0), seconds=(iteration_s + one_s, iteration_s + 2 * one_s), per_cached_token_s=cached_s,
            tail_slope_s=one_s,
        ),
        per_position_s=position_s,
        request_s=_request_s(fastest),
        turn_s=turn_s,
    )  # fmt: skip


def non_negative(measured: Sequence[Counted]) -> list[float]:
    """Return the price of every count that leaves the least relative error, none below zero.

    Every set of counts that may cost anything is solved for (Lawson and Hanson 1974 search them in order; five counts
    have 32 sets).
    """
    best, least = [0.0] * len(measured[0].counts), math.inf
    for kept in product((False, True), repeat=len(best)):
        prices = _solved(measured, kept)
        error = math.fsum((_sum(prices, one.counts) / one.seconds - 1) ** 2 for one in measured)
        if min(prices) >= 0 and error < least:
            best, least = prices, error
    return best


def _solved(measured: Sequence[Counted], kept: Sequence[bool]) -> list[float]:
    places = [i for i, is_kept in enumerate(kept) if is_kept]
    rows = [[one.counts[i] / one.seconds for i in places] for one in measured]
    normal = [[math.fsum(row[i] * row[j] for row in rows) for j in range(len(places))] for i in range(len(places))]
    for i, line in enumerate(normal):
        line[i] *= 1 + RIDGE
    prices = [0.0] * len(kept)
    found = solve(normal, [math.fsum(row[i] for row in rows) for i in range(len(places))])
    for place, price in zip(places, found, strict=True):
        prices[place] = price
    return prices


def _sum(prices: Sequence[float], counts: Sequence[float]) -> float:
    return math.fsum(price * count for price, count in zip(prices, counts, strict=True))


def _fastest(probes: Sequence[RowsProbe]) -> list[RowsProbe]:
    """Return the fastest of every shape: the first one pays for buffers."""
    best: dict[tuple[int, int, int], RowsProbe] = {}
    for probe in probes:
        shape = probe.rows, probe.prompt_len, probe.tokens
        if shape not in best or probe.seconds < best[shape].seconds:
            best[shape] = probe
    return list(best.values())


def _of_probe(probe: RowsProbe) -> Counted:
    rows = probe.rows
    return Counted(
        seconds=probe.seconds,
        counts=(1, probe.iterations, *_row_counts([(probe.prompt_len, probe.tokens)] * rows, rows * probe.prompt_len)),
    )


def _of_batch(profile: VllmProfile, index: int) -> Counted:
    batch: BatchTimes = profile.batches[index]
    rows = [(profile.prompt_len, tokens) for tokens in profile.lengths[index]]
    computed = batch.prompt_tokens - batch.found_tokens
    return Counted(seconds=batch.seconds, counts=(1, batch.iterations, *_row_counts(rows, computed)))


def _row_counts(rows: Sequence[tuple[int, int]], computed: int) -> tuple[float, float, float]:
    """Return row-iterations, cached tokens read and positions; a row's first token comes with its prompt."""
    made = sum(tokens for _, tokens in rows)
    cached = math.fsum((tokens - 1) * (prompt + tokens / 2) for prompt, tokens in rows)
    return made, cached, computed + made - len(rows)


def _request_s(fastest: Sequence[RowsProbe]) -> float:
    """Return seconds between two requests: what each more of one token on a short prompt adds."""
    short = min(probe.prompt_len for probe in fastest)
    one_token = [probe for probe in fastest if probe.tokens == 1 and probe.prompt_len == short]
    narrow, wide = min(one_token, key=lambda p: p.rows), max(one_token, key=lambda p: p.rows)
    more = wide.rows - narrow.rows
    return max(wide.seconds - narrow.seconds, 0.0) / more if more else 0.0
