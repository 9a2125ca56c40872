"""Attempts of a job that restarts itself, told by step numbers that fall; a job that gets no further is in a loop."""

from collections.abc import Sequence

from steptune.core.paste import Paste, SeriesPoint
from steptune.core.profile import Origin
from steptune.core.watched import Alarm, AlarmKind

MAX_VAIN_RESTARTS = 3
"""Restarts in a row without a new furthest step from which a job is called looping: one is a lost node, two are bad
luck."""


def crash_loop(paste: Paste) -> Alarm | None:
    """Return an alarm where the last `MAX_VAIN_RESTARTS` attempts all ended before the furthest step was passed."""
    series = paste.get_series("step_time") or next(iter(paste.series), None)
    if series is None:
        return None
    vain, furthest = _vain_restarts(series.points)
    if len(vain) < MAX_VAIN_RESTARTS:
        return None
    return Alarm(
        kind=AlarmKind.CRASH_LOOP,
        metric="restarts",
        text=f"started again {len(vain)} times without getting past step {furthest}",
        since_step=vain[0].step,
        origin=Origin(path=series.path, line=vain[0].line, key=series.key),
        action=f"stop it and read the error before the restart: the same step fails every time after step {furthest}",
    )


def _vain_restarts(points: Sequence[SeriesPoint]) -> tuple[list[SeriesPoint], int]:
    """Return the first points of the attempts since the furthest step was last passed, and that step."""
    vain: list[SeriesPoint] = []
    furthest, before = -1, -1
    for point in points:
        if point.step is None:
            continue
        if point.step < before:
            vain.append(point)
        if point.step > furthest:
            furthest = point.step
            vain = [] if point.step > before else vain
        before = point.step
    return vain, furthest
