"""Static batching, as transformers' `generate` does it: a call's rows all run until its longest has ended.

::

    call of 4    |======......|      = tokens kept
                 |============|      . computed for nothing
                 |===.........|
                 |=========...|      training then pads all of them to that width, too

A step may be cut into several calls one after another: each waits for its own longest row only, but decodes fewer rows
at a time. Nothing of this needs a new mechanism: it is other lengths for the makespan and for training.
"""

from dataclasses import replace

from steptune.core.errors import explain
from steptune.forecast.cluster.work import GroupShape, Work
from steptune.forecast.curve import ForecastError


def in_calls(work: Work, num_calls: int) -> Work:
    """Return every step's calls as batches of their own, ``num_calls`` of them after another for each step of ``work``.

    Prompts and completions are as long as the longest of their call. Tool waits are not kept: a static batch has none.

    Raises:
        ForecastError: the groups of a step do not make so many equal calls.
    """
    if num_calls < 1 or work.groups_per_step % num_calls:
        raise ForecastError(
            explain(
                "a step cannot be cut into calls of whole groups",
                got=f"{work.groups_per_step} groups in {num_calls} calls",
                allowed="a divisor of the groups",
                hint="keep every group in one call: its advantages need all of it",
            )
        )
    size = work.groups_per_step // num_calls
    calls = [step[start : start + size] for step in work.steps for start in range(0, len(step), size)]
    return replace(work, steps=tuple(_padded(call) for call in calls))


def _padded(call: tuple[GroupShape, ...]) -> tuple[GroupShape, ...]:
    prompt = max(group.prompt for group in call)
    longest = max((row.tokens for group in call for row in group.rows), default=0)
    return tuple(
        replace(g, prompt=prompt, rows=tuple(replace(row, tokens=longest, waits=()) for row in g.rows)) for g in call
    )
