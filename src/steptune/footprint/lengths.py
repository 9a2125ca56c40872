"""How many tokens are likely to come where a micro-batch is counted in sequences, beside how many could.

Whether a job *fits* is asked with every sequence at its limit, because that may come. The surprise: for a refusal that
is the wrong question. Forty answers at their limit at once come in no run, so a job is refused only where it would run
out with the lengths of a job whose answers are short. A budget of tokens is filled and has no such gap.
"""

import math

from steptune.footprint.layout import Counted, TrainLayout

SHORT_MEAN_FRAC = 0.19
"""Mean answer as a part of its limit in a job with short answers: a quarter of the 21 jobs of `public_runs.csv` that
state both have less (0.04 to 0.98, the median job 0.45; counted 2026-12-01)."""

SHORT_SPREAD_FRAC = SHORT_MEAN_FRAC
"""Standard deviation of one length as a part of the limit: as large as the mean, which is an exponential's."""

FULLEST_DEVIATIONS = 2.0
"""How far the fullest micro-batch is above the mean one: the fullest of the first forty-four (a normal's quantile), so
that a refused job runs out within its first steps."""

FEW = 3
"""Sequences that may all be at their limits at once whatever comes beside them."""


def likely(train: TrainLayout) -> TrainLayout:
    """Return the trainer with the tokens that are likely to come; the same where budgets of tokens are filled."""
    frac = _frac(train, train.micro_tokens, train.counted)
    logprob = None
    if train.logprob_tokens is not None:
        logprob_frac = _frac(train, train.logprob_tokens, train.logprob_counted or train.counted)
        logprob = math.ceil(logprob_frac * train.logprob_tokens)
    logits = None if train.logits_tokens is None else math.ceil(frac * train.logits_tokens)
    micro = math.ceil(frac * train.micro_tokens)
    return train.model_copy(update={"micro_tokens": micro, "logprob_tokens": logprob, "logits_tokens": logits})


def likely_frac(sequences: float, counted: Counted) -> float:
    """Return the part of its limit that a micro-batch of ``sequences`` is likely to reach: mean + z x deviation.

    Of the mean of its lengths where they are packed, of one length where all are padded to the longest; at least as
    much as a few at their limits.
    """
    if counted == "tokens" or sequences <= FEW:
        return 1.0
    deviation = SHORT_SPREAD_FRAC / (math.sqrt(sequences) if counted == "packed" else 1.0)
    return min(1.0, max(FEW / sequences, SHORT_MEAN_FRAC + FULLEST_DEVIATIONS * deviation))


def _frac(train: TrainLayout, tokens: int, counted: Counted) -> float:
    return likely_frac(tokens / train.longest if train.longest else 1.0, counted)
