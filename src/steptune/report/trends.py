"""Which metrics of a log are worth drawing over its steps, and in which unit."""

from steptune.core.paste import Paste, Series
from steptune.report.markup import Markup, element, joined
from steptune.report.svg.trend import draw_trend

SHOWN = {
    "step_time": ("step time", "s"),
    "tokens_per_device_s": ("tokens per device-second", "1"),
    "effective_tokens_per_device_s": ("effective tokens per device-second", "1"),
    "mfu": ("model FLOP utilisation", "frac"),
    "reward": ("reward", "1"),
    "entropy": ("entropy", "nat"),
    "completion_mean": ("completion length", "tokens"),
    "clipped_frac": ("completions that hit the limit", "frac"),
    "zero_std_frac": ("groups without a difference in reward", "frac"),
    "mismatch_k3": ("mismatch k3", "nat"),
    "mult_prob_error": ("mismatch, multiplicative", "1"),
    "grad_norm": ("gradient norm", "1"),
    "memory_after_sleep_gib": ("memory after sleep", "GiB"),
    "memory_reserved_gib": ("memory reserved", "GiB"),
    "staleness_mean": ("staleness", "updates"),
    "async_level": ("async level", "1"),
}
"""Canonical names in reading order, with title and unit."""

MIN_POINTS = 3
"""Points below which a line says less than the numbers."""

MAX_POINTS = 400
"""Points drawn: more than the pixels of a row; of longer series every k-th is kept, the last always."""


def shown_series(paste: Paste) -> list[tuple[Series, str, str]]:
    """Return the series worth showing with their title and unit, in reading order."""
    return [
        (series, *SHOWN[name]) for name in SHOWN for series in paste.series if series.name == name and series.points
    ]


def trends(paste: Paste) -> Markup:
    """Return the drawn metrics, or nothing where no metric has `MIN_POINTS`."""
    rows = [
        draw_trend(title, _thinned(series), unit, series.key)
        for series, title, unit in shown_series(paste)
        if len(series.points) >= MIN_POINTS
    ]
    if not rows:
        return joined()
    caption = element("figcaption", "Over the steps of the log, each on a scale of its own")
    return element("figure", caption, element("div", *rows, class_="rows"), class_="chart")


def _thinned(series: Series) -> list[float]:
    every = -(-len(series.points) // MAX_POINTS)
    kept = series.points[::-1][::every][::-1]
    return [point.value for point in kept]
