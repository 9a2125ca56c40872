"""Length: did the answers become longer or shorter? Shorter answers look like a faster step and are less work.

Both directions count. Pairs are seeds of the reward test, compared on the log scale.
"""

from collections.abc import Sequence

from steptune.core.estimate import Source
from steptune.core.verdict import Verdict
from steptune.guard.judge import combined, held, unknown
from steptune.stats.finite import finite_or_none
from steptune.stats.ratio import ratio_interval

NAME = "length"
"""Name in verdicts."""

MIN_PAIRS = 3
"""Fewest pairs, as for the reward they come with."""

MAX_LENGTH_RATIO = 1.1
"""Largest acceptable ratio of mean completion lengths, either way: work moved by 10 % is as large as a typical gain."""


def check_length(*, baseline_len_S: Sequence[float | None], candidate_len_S: Sequence[float | None]) -> Verdict:
    """Judge mean completion lengths (tokens) of paired runs; S = seed, same order in both lists.

    PASS needs the whole 95 % interval of the ratio within 1/1.1 to 1.1, FAIL needs it wholly outside.
    """
    limit = f"mean completion length within a factor {MAX_LENGTH_RATIO} of the baseline's"
    num_pairs = len(baseline_len_S)
    if len(candidate_len_S) != num_pairs or num_pairs < MIN_PAIRS:
        got = f"{num_pairs} and {len(candidate_len_S)}"
        return combined(NAME, [unknown(f"need {MIN_PAIRS} complete pairs, got lists of {got}")], limit=limit)
    baseline, candidate = finite_or_none(baseline_len_S), finite_or_none(candidate_len_S)
    if baseline is None or candidate is None or min(*baseline, *candidate) <= 0:
        return combined(NAME, [unknown("a mean length is missing or not above zero")], limit=limit)
    ratio = ratio_interval(candidate, baseline)
    text = f"completions {ratio.value:.3g} times as long ({ratio.low:.3g} to {ratio.high:.3g}, n={ratio.n})"
    is_inside = ratio.low >= 1 / MAX_LENGTH_RATIO and ratio.high <= MAX_LENGTH_RATIO
    is_outside = ratio.high < 1 / MAX_LENGTH_RATIO or ratio.low > MAX_LENGTH_RATIO
    finding = held(is_inside, text) if is_inside or is_outside else unknown(f"{text}: too wide to tell")
    return combined(NAME, [finding], limit=limit, measured=ratio.estimate(unit="x", source=Source.DERIVED))
