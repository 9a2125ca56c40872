"""A training run in plain text, for the terminal and for a file beside the page."""

import math

from steptune.core.training import Training
from steptune.report.svg.trend import trend_text
from steptune.report.text import block_lines
from steptune.report.text_page import bullet, section, wrapped
from steptune.report.text_table import WIDTH, table_lines
from steptune.report.training_blocks import headline, model_lines, validation_table


def training_text(training: Training) -> str:
    """Return the whole report."""
    lines = [*wrapped(f"steptune train: {training.job_name}"), "=" * WIDTH, *wrapped(headline(training))]
    if training.evaluations:
        lines += ["", *table_lines(validation_table(training))]
    lines += section("Step by step", _steps(training))
    lines += section("Checkpoints", block_lines(model_lines(training)) if training.models else [])
    return "\n".join(lines) + "\n"


def _steps(training: Training) -> list[str]:
    if not training.steps:
        return []
    rewards = [math.nan if held.reward_mean is None else held.reward_mean for held in training.steps]
    times_s = [held.step_time_s for held in training.steps]
    said = (f"reward: {trend_text(rewards, '1')}", f"step time: {trend_text(times_s, 's')}")
    return [line for text in said for line in bullet(text, indent=0)]
