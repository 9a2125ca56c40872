"""What a decision does not state is held against the job's own first steps, for which it was handed over.

Surprise: a log that begins in the new regime shows no change. What the decision states is therefore asked of it
(`promise`), and only the rest of the start.
"""

import math
from collections.abc import Sequence
from statistics import median

from steptune.core.decision import Tripwire
from steptune.core.paste import Paste, ValueStatus
from steptune.watch.promise import RISES
from steptune.watch.wires import MIN_VALUES, TOLD_AS, WINDOW, Judged, judge_wires

OWN = "steptune"
"""Framework of a paste that is a run of `steptune train`."""


def judge_by_start(paste: Paste, wires: Sequence[Tripwire]) -> list[Judged]:
    """Return judgements of what the log tells and no wire states; none where there is no decision to hold it for.

    Nor of our own training: its decisions state the batches where groups are thrown away, and elsewhere none are.
    """
    if not wires or paste.framework == OWN:
        return []
    stated = {wire.metric for wire in wires}
    judged = (_judge(paste, metric) for metric in RISES if metric not in stated)
    return [one for one in judged if one is not None]


def _judge(paste: Paste, metric: str) -> Judged | None:
    """Return what the last steps say beside the first ones; None where the log does not tell the metric."""
    ((name, factor),) = TOLD_AS[metric]
    series = paste.get_series(name)
    if series is None or not series.points:
        return None
    values = [p.value * factor for p in series.points if p.status is not ValueStatus.IMPLAUSIBLE]
    start = median(values[:WINDOW]) if len(values) >= WINDOW else math.nan
    wire = RISES[metric].wire(metric, start)
    if len(values) < WINDOW + MIN_VALUES:
        return Judged(wire=wire, why_unjudged=f"{len(values)} of {WINDOW + MIN_VALUES} steps so far")
    if any(math.isnan(value) for value in values[:WINDOW]) or not 0 < start < math.inf:
        return Judged(wire=wire, why_unjudged=f"`{series.key}` is {start:g} in the first {WINDOW} steps")
    return judge_wires(paste, [wire])[0]
