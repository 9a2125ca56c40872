"""A published run in words, and what differs from it.

Surprise: what the input does not state is no difference; it stands apart, so that a reader sees what to add.
"""

from steptune.core.finding import Diagnosis, Neighbour
from steptune.report.numbers import digits, value_text
from steptune.report.text_page import bullet

NOT_STATED = " (yours not stated)"
"""End of a difference to a published run that is none: this input does not say."""

SAME_AS_FAR_AS_COMPARED = "in no size and no setting that both state (models are compared by size alone)"
"""Said of a run without a known difference: a Qwen2-7B stands beside a Qwen2.5-7B, PPO beside GRPO."""


def neighbour_lines(diagnosis: Diagnosis) -> list[str]:
    """Return the runs as a list, each with its source."""
    lines: list[str] = []
    for near in diagnosis.neighbours:
        lines += bullet(neighbour_text(near), indent=0)
        lines += [line for text in differences(near) for line in bullet(text, indent=2)]
        lines += bullet(near.source, indent=2)
    return lines


def neighbour_text(near: Neighbour) -> str:
    """Return who ran what, and how fast."""
    numbers = [f"step {value_text(near.step_time_s, 's')}"] if near.step_time_s is not None else []
    rate = near.tokens_per_s_per_gpu
    numbers += [f"{digits(rate)} tokens/s per GPU"] if rate is not None else []
    said = ", ".join(numbers) or "no time published"
    return f"{near.run_id}: {near.model}, {near.framework}, {near.gpus}: {said} (published)"


def differences(near: Neighbour) -> list[str]:
    """Return what differs, and apart from it what this input does not state."""
    unknown = [text.removesuffix(NOT_STATED) for text in near.differs if text.endswith(NOT_STATED)]
    known = [text for text in near.differs if not text.endswith(NOT_STATED)]
    said = [f"differs: {'; '.join(known) or SAME_AS_FAR_AS_COMPARED}"]
    return [*said, *([f"not stated here, there: {'; '.join(unknown)}"] if unknown else [])]
