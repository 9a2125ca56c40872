"""A training run as one page: the curve on the held-out problems first, then the steps and the checkpoints."""

from steptune import __version__
from steptune.core.training import Training
from steptune.report.diagnosis_html import card
from steptune.report.html_blocks import block_markup
from steptune.report.html_page import page
from steptune.report.markup import Markup, element, joined, prose
from steptune.report.svg.trend import draw_trend
from steptune.report.training_blocks import headline, model_lines, step_trends, validation_table

FOOTNOTE = (
    "Every number was measured in this run, on this machine. Nothing was sent anywhere to make this page, and it loads "
    "nothing."
)


def training_html(training: Training) -> str:
    """Return the page."""
    takeaway = element("p", prose(headline(training)), class_="takeaway")
    cards = (
        element("section", takeaway, id="decision", class_="card shown"),
        card("validation", "Validation", *_validation(training)),
        card("steps", "Step by step", _steps(training)),
        card("checkpoints", "Checkpoints", *([block_markup(model_lines(training))] if training.models else [])),
    )
    return page(
        title=f"{training.job_name}: training",
        eyebrow=f"steptune {__version__} train",
        heading=training.job_name,
        main=element("main", *cards),
        footnote=FOOTNOTE,
        styles=("style.css", "answer.css"),
    )


def _validation(training: Training) -> list[Markup]:
    if not training.evaluations:
        return []
    values = [held.accuracy for held in training.evaluations]
    steps = ", ".join(str(held.step) for held in training.evaluations)
    drawn = draw_trend("held-out accuracy", values, "frac", f"after {steps} RL steps")
    curve = _chart("Held-out accuracy (measured), from validation to validation", drawn)
    return [curve, block_markup(validation_table(training))]


def _steps(training: Training) -> Markup:
    if not training.steps:
        return joined()
    rows = [draw_trend(name, values, unit, "") for name, unit, values in step_trends(training)]
    return _chart("Over the RL steps (measured), each on a scale of its own", *rows)


def _chart(caption: str, *rows: Markup) -> Markup:
    return element("figure", element("figcaption", caption), element("div", *rows, class_="rows"), class_="chart")
