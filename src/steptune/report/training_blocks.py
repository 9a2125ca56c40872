"""What the page and the text of a training run share: headline, table of validations, list of checkpoints."""

import math

from steptune.core.training import Training
from steptune.report.blocks import Table, Text
from steptune.report.cells import number, numbers, words
from steptune.report.numbers import count_text, digits, measured


def headline(training: Training) -> str:
    """Return the run in one sentence."""
    known = training.evaluations
    steps = count_text(len(training.steps), "RL step")
    if not known:
        return f"{steps}, no validation yet"
    first, last = known[0], known[-1]
    problems = f"{last.num_problems} held-out problems"
    if last.step == first.step:
        return f"held-out accuracy of the start {digits(first.accuracy)} on {problems}"
    return f"held-out accuracy {digits(first.accuracy)} to {digits(last.accuracy)} on {problems}, {steps}"


def validation_table(training: Training) -> Table:
    """Return the curve in numbers."""
    rows = tuple(
        (
            words(str(held.step)),
            number(measured(held.accuracy, "frac", n=held.num_problems)),
            number(measured(held.truncated_frac, "frac")),
            number(measured(held.completion_len_mean, "tokens")),
        )
        for held in training.evaluations
    )
    heads = (numbers("RL steps"), numbers("accuracy"), numbers("hit the limit"), numbers("completion length"))
    caption = "Validation: one sample per held-out problem, the same problems and the same dice each time"
    return Table(caption=caption, columns=heads, rows=rows)


def step_trends(training: Training) -> tuple[tuple[str, str, list[float]], ...]:
    """Return name, unit and value per step of every trend that the record tells; what one step lacks is NaN."""
    columns = (
        ("reward", "1", [held.reward_mean for held in training.steps]),
        ("entropy", "nat", [held.entropy for held in training.steps]),
        ("loss", "1", [held.loss for held in training.steps]),
        ("gradient norm", "1", [held.grad_norm for held in training.steps]),
        ("step time", "s", [held.step_time_s for held in training.steps]),
    )
    return tuple(
        (name, unit, [math.nan if value is None else value for value in values])
        for name, unit, values in columns
        if any(value is not None for value in values)
    )


def model_lines(training: Training) -> Text:
    """Return the checkpoints, and why one is missing."""
    lines = tuple(
        f"after {count_text(held.step, 'step')}: "
        + (f"`{held.path}`" if held.refused is None else f"none, {held.refused}")
        for held in training.models
    )
    return Text(lines=lines)
