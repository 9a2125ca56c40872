"""The metrics of a log in words: from the first value to the last, with the lines they stand on."""

from steptune.core.finding import Diagnosis
from steptune.core.paste import Series, ValueStatus
from steptune.report.numbers import count_text, value_text
from steptune.report.places import Places
from steptune.report.svg.trend import trend_text
from steptune.report.text_page import bullet
from steptune.report.trends import shown_series


def metric_lines(diagnosis: Diagnosis, places: Places) -> list[str]:
    """Return the metrics that were read."""
    lines: list[str] = []
    for series, title, unit in shown_series(diagnosis.paste):
        first, last = series.points[0].line, series.points[-1].line
        where = f"{places.file(series.path)}:{first}" + (f" to {last}" if last != first else "")
        said = series_text(series, unit)
        lines += bullet(f"{title}: {said} ({where}, {series.key})", indent=0)
    return lines


def series_text(series: Series, unit: str) -> str:
    """Return a series in words; values that cannot be true are counted, not shown."""
    believed = [point.value for point in series.points if point.status is not ValueStatus.IMPLAUSIBLE]
    doubted = len(series.points) - len(believed)
    said = value_text(believed[0], unit) if len(believed) == 1 else trend_text(believed, unit)
    parts = [said] if believed else []
    return "; ".join([*parts, *([f"{count_text(doubted, 'value')} implausible"] if doubted else [])])
