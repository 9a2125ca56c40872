"""Small work for a virtual cluster."""

from steptune.engine.virtual.costs import LinearCosts
from steptune.engine.virtual.work import GroupWork, RowWork, ToolCall, Workload

FLAT = LinearCosts(decode=(1.0, 0.0), train=(0.0, 0.01), optimizer=0.5)
"""A second per decode iteration whatever the rows, 10 ms per trained position, half a second per optimizer step."""


def group(*completions: int, prompt: int = 1, tools: tuple[ToolCall, ...] = ()) -> GroupWork:
    """A group with these lengths, perfectly predicted."""
    rows = tuple(RowWork(completion=n, tools=tools) for n in completions)
    return GroupWork(prompt=prompt, rows=rows, predicted=float(sum(completions)))


def workload(*groups: GroupWork, num_steps: int = 1, limit: int = 100) -> Workload:
    """The same groups in every step."""
    return Workload(steps=[groups] * num_steps, max_completion=limit)
