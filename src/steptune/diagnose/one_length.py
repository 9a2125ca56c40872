"""A mean length that is the same whole number step after step: all answers are as long as that one number.

The surprise: it is no proof that they are cut. A metric that counts padding looks alike, and so does a policy that
answers one token; so it is told beside what it may explain, and is no finding of its own.
"""

from steptune.core.finding import Evidence
from steptune.diagnose.job import Job, origin_of
from steptune.diagnose.vitals import RECENT

MIN_STEPS = 3
"""Steps from which one whole number is no chance of a single batch."""

MIN_TOKENS = 16.0
"""Shortest length that reads as a limit; limits below are rare, one-word answers are not. Prior."""


def one_length(job: Job) -> tuple[Evidence, ...]:
    """Return what one length of all answers may mean; empty where lengths differ or the share of cut ones is logged."""
    lengths = job.series("completion_mean")
    recent = [] if lengths is None else lengths.finite()[-RECENT:]
    is_known = job.series("clipped_frac") is not None
    if lengths is None or is_known or len(recent) < MIN_STEPS or len({*recent}) > 1:
        return ()
    if recent[0] < MIN_TOKENS or not recent[0].is_integer():
        return ()
    text = (
        f"{lengths.key} {recent[0]:g} in each of {len(recent)} steps: all answers are of one length, which is a limit "
        "that cuts them before they say the result (then a reward of the result is 0), or the metric counts padding; "
        "read a few answers"
    )
    return (Evidence(text=text, origin=origin_of(lengths)),)
