"""A training run in plain text, for the terminal and for a file beside the page."""

from steptune.core.training import Training
from steptune.report.svg.trend import trend_text
from steptune.report.text import block_lines
from steptune.report.text_page import bullet, section, wrapped
from steptune.report.text_table import WIDTH, table_lines
from steptune.report.training_blocks import headline, model_lines, step_trends, validation_table


def training_text(training: Training) -> str:
    """Return the whole report."""
    lines = [*wrapped(f"steptune train: {training.job_name}"), "=" * WIDTH, *wrapped(headline(training))]
    if training.evaluations:
        lines += ["", *table_lines(validation_table(training))]
    lines += section("Step by step", _steps(training))
    lines += section("Checkpoints", block_lines(model_lines(training)) if training.models else [])
    return "\n".join(lines) + "\n"


def _steps(training: Training) -> list[str]:
    said = [f"{name}: {trend_text(values, unit)}" for name, unit, values in step_trends(training)]
    return [line for text in said for line in bullet(text, indent=0)]
