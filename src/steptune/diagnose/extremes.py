"""The highest and the lowest value of a metric, by the keys that logs print them under."""

import re

from steptune.core.paste import Series
from steptune.diagnose.job import Job


def extremes(job: Job, word: str) -> tuple[Series, Series] | None:
    """Return the series of the highest and of the lowest value of a metric whose name matches ``word``, or None."""
    found: list[Series] = []
    for end in ("max", "min"):
        pattern = re.compile(rf"(?:^|/){word}[/_]{end}$")
        series = next((s for s in job.paste.series if pattern.search(s.key) and s.finite()), None)
        if series is None:
            return None
        found.append(series)
    return found[0], found[1]
