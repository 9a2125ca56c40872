"""The step model's answer about a log, as text: the step, who is busy, what it rests on, what would narrow it."""

from collections.abc import Sequence

from steptune.core.estimate import Estimate, Source
from steptune.forecast.ask.answer import Configuration, Ranked, RoleSeconds, StepAnswer, Unknown, Used
from steptune.report.numbers import count_text, digits, estimate_text, interval_text, main_text

MAX_ROWS = 12
"""Rows of a sweep that are printed; JSON has all."""

SMALL_FRAC = 0.001
"""Part of the step below which a move is not worth a figure."""

NAME_WIDTH = 34
"""Characters of a parameter's name."""


def step_text(answer: StepAnswer) -> str:
    """Return the answer."""
    lines = [
        f"question   {answer.question}",
        f"measured   {estimate_text(answer.measured)}, on {configuration_text(answer.measured_configuration)}",
        f"forecast   {_asked(answer)}",
        f"ratio      {main_text(answer.ratio)} ({interval_text(answer.ratio) or answer.ratio.note})",
        f"devices    {configuration_text(answer.configuration)}",
        *(line for role in answer.roles for line in _role(role)),
        f"waits      the trainer waits {main_text(answer.exposed_wait)} a step for samples{_note(answer.exposed_wait)}",
        f"lag        {_lag(answer)}",
        *([] if answer.is_proven else ["           a split that was left out may be faster"]),
        *_ranking(answer.ranking),
        "",
        f"measured, {count_text(answer.num_free_parameters, 'free parameter')}",
        *(_used(p) for p in answer.parameters if p.value.source in (Source.MEASURED, Source.DERIVED)),
        "",
        "not measured: priors",
        *(_used(p) for p in answer.parameters if p.value.source not in (Source.MEASURED, Source.DERIVED)),
        *_unknown(answer.unknown),
        "",
        "not in it",
        *(f"  {line}" for line in (*answer.notes, *answer.cannot_know)),
    ]
    return "\n".join(lines) + "\n"


def _asked(answer: StepAnswer) -> str:
    is_measured = answer.step_time.source is Source.MEASURED
    return f"{'none needed: ' if is_measured else ''}{estimate_text(answer.step_time)}"


def configuration_text(own: Configuration) -> str:
    """Return a configuration in words: ``40 devices, 24 training and 16 generating, at most 1 update behind``."""
    devices = count_text(own.num_devices, "device")
    if own.shares_devices:
        return f"{devices} that take turns"
    meets = "one waits for the other"
    if own.schedule == "async":
        meets = f"at most {count_text(own.max_lag, 'update')} behind"
    return f"{devices}, {own.train_devices} training and {own.rollout_devices} generating, {meets}"


def _role(role: RoleSeconds) -> list[str]:
    head = f"{role.role:<11}busy {main_text(role.busy)}, idle {main_text(role.idle)}"
    return [head, *(f"  {phase:<20}{main_text(seconds)}" for phase, seconds in role.phases.items())]


def _note(estimate: Estimate) -> str:
    return f" ({estimate.note})" if estimate.note else ""


def _lag(answer: StepAnswer) -> str:
    shares = [
        f"{main_text(row.share)}{_between(row.share)} of rollouts {count_text(row.lag, 'update')} old"
        for row in answer.lag
    ]
    dropped = f"; {main_text(answer.dropped)} of the tokens dropped" if answer.dropped.value > 0 else ""
    return ", ".join(shares) + dropped


def _between(share: Estimate) -> str:
    if share.low is None or share.high is None or share.high - share.low < SMALL_FRAC:
        return ""
    return f" ({digits(share.low)} to {digits(share.high)})"


def _ranking(rows: Sequence[Ranked]) -> list[str]:
    if not rows:
        return []
    head = "fastest first (no intervals: ask for a row alone)"
    made = [
        f"  {main_text(row.step_time):>12}{main_text(row.ratio):>9}{main_text(row.device_ratio):>9} device-s   "
        f"{configuration_text(row.configuration)}{', as measured' if row.step_time.source is Source.MEASURED else ''}"
        for row in rows[:MAX_ROWS]
    ]
    left = len(rows) - len(made)
    return ["", head, *made, *([f"  and {count_text(left, 'row')} more in --json"] if left else [])]


def _used(parameter: Used) -> str:
    shown = f"{parameter.name.replace('_', ' '):<{NAME_WIDTH}}{_value(parameter.value):>16}"
    low, high = parameter.value.low, parameter.value.high
    if low is not None and high is not None:
        shown += f" ({digits(low)} to {digits(high)})"
    return f"  {shown}  {parameter.where}"


def _value(estimate: Estimate) -> str:
    """A value, counts without decimals."""
    is_count = estimate.unit not in ("s", "frac", "1") and float(estimate.value).is_integer()
    return f"{estimate.value:.0f} {estimate.unit}" if is_count else main_text(estimate)


def _unknown(rows: Sequence[Unknown]) -> list[str]:
    if not rows:
        return []
    made = [f"  {row.what.replace('_', ' ')}: {row.assumed}{_moved(row)}; {row.narrow}" for row in rows]
    return ["", "assumed, and what would narrow it", *made]


def _moved(row: Unknown) -> str:
    if row.moves is None:
        return ""
    if row.moves.value < SMALL_FRAC:
        return ": hardly moves the answer"
    return f": moves the answer {main_text(row.moves)}"
