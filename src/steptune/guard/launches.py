"""Which of a trial's steps belong to one launch: a step number that does not rise begins another one.

What counts up or grows inside a run (versions, queues, gaps) starts again with every launch, so guards of such things
judge each launch by itself.
"""

from collections.abc import Sequence

from steptune.core.trial import Observation


def by_launch(steps: Sequence[Observation]) -> list[list[Observation]]:
    """Return the steps of each launch, in order."""
    launches: list[list[Observation]] = []
    for step in steps:
        if not launches or step.step <= launches[-1][-1].step:
            launches.append([])
        launches[-1].append(step)
    return launches


def long_launches(steps: Sequence[Observation], num_steps: int) -> list[list[Observation]]:
    """Return the launches of ``num_steps`` steps or more; all steps as one where no launch has as many.

    A trial that is nearly settled adds a block or two on fresh launches: too few steps to show a trend, and no reason
    to forget what the others showed.
    """
    return [launch for launch in by_launch(steps) if len(launch) >= num_steps] or [list(steps)]
