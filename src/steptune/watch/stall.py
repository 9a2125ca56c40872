"""Is a silent job hung? Its own rhythm says how long silence may last. Pure: the shell brings the clock.

Surprise: a job that ended looks like one that hangs, and nothing in a log tells them apart for certain, so the alarm
says both.
"""

from collections.abc import Sequence

from steptune.core.paste import Paste
from steptune.core.watched import Alarm, AlarmKind

STALL_STEPS = 5.0
"""Longest steps of silence after which a job is called hung: validations and checkpoints take two or three."""

MIN_SILENCE_S = 300.0
"""Seconds of silence that every job may take: engines start, weights load, graphs are captured."""

NO_STEP_SILENCE_S = 1800.0
"""Seconds before the first step: large models take half an hour to load (NCCL's default timeout is as long,
https://docs.pytorch.org/docs/stable/distributed.html)."""

NEXT_PHASE = "rollout"
"""What a step begins with."""


def allowed_silence_s(paste: Paste, *, told_s: float | None = None) -> float:
    """Return the seconds without a new line after which the job is called hung; ``told_s`` is the user's own."""
    if told_s is not None:
        return told_s
    series = paste.get_series("step_time")
    steps = series.finite() if series is not None else []
    return max(MIN_SILENCE_S, STALL_STEPS * max(steps)) if steps else NO_STEP_SILENCE_S


def stall(
    paste: Paste, *, silent_s: float, allowed_s: float, named_phase: tuple[str, str], last: Sequence[str]
) -> Alarm | None:
    """Return an alarm for a job that was silent for longer than ``allowed_s``.

    Args:
        paste: the log so far.
        silent_s: seconds since the log grew; NaN, as a clock that jumped gives, is no proof of silence.
        allowed_s: see `allowed_silence_s`.
        named_phase: phase that the last lines name and the words that did, or ``unknown``.
        last: the last lines of the log.
    """
    if not silent_s > allowed_s:
        return None
    phase, because = named_phase
    step = last_step(paste)
    where = _where(phase, because, step, ends_in_step=_ends_in_step(paste, last))
    said = f"; its last line: {last[-1].strip()[:160]}" if last else ""
    return Alarm(
        kind=AlarmKind.STALL,
        metric="silence",
        text=f"nothing new for {silent_s:.0f} s, allowed {allowed_s:.0f} s: it ended or hangs, {where}{said}",
        since_step=step,
        action="look whether it runs; `py-spy dump --pid PID` on each rank shows which call waits; then restart it",
    )


def last_step(paste: Paste) -> int | None:
    """Return the number of the last step that the log tells."""
    series = paste.get_series("step_time") or next(iter(paste.series), None)
    return series.points[-1].step if series is not None and series.points else None


def _where(phase: str, because: str, step: int | None, *, ends_in_step: bool) -> str:
    if phase != "unknown":
        return f"in `{phase}` (by `{because}`)"
    if ends_in_step:
        after = "the last step" if step is None else f"step {step}"
        return f"in `{NEXT_PHASE}` or what else comes first after {after}, which was logged whole"
    return "in an unknown phase: the last lines name none"


def _ends_in_step(paste: Paste, last: Sequence[str]) -> bool:
    """Whether the last lines of the log are those of a whole step."""
    lines = [series.points[-1].line for series in paste.series if series.points]
    return bool(lines) and paste.num_lines - max(lines) < max(1, len([line for line in last[-3:] if line.strip()]))
