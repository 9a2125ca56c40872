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
