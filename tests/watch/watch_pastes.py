"""Pastes and wires for the tests of `watch`."""

from collections.abc import Sequence

from steptune.core.decision import Tripwire
from steptune.core.paste import Paste, Series, SeriesPoint


def series(name: str, values: Sequence[float], *, steps: Sequence[int] | None = None) -> Series:
    """One point a step, step n on line 10 n."""
    numbers = range(1, len(values) + 1) if steps is None else steps
    points = tuple(SeriesPoint(step=n, value=v, line=10 * n) for n, v in zip(numbers, values, strict=True))
    return Series(name=name, key=f"k/{name}", points=points, path="run.log")


def paste(*told: Series, num_lines: int = 0) -> Paste:
    return Paste(paths=("run.log",), series=told, num_lines=num_lines)


def wire(metric: str, bound: float, *, above: bool = True) -> Tripwire:
    return Tripwire(metric=metric, bound=bound, above=above, action="go back")
