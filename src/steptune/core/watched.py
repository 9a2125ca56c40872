"""What `steptune watch` says of a running job: alarms, and what could not be judged."""

from enum import StrEnum

from steptune.core.profile import Origin
from steptune.core.records import Record


class AlarmKind(StrEnum):
    """Why somebody should look."""

    WIRE = "wire"
    """A trip-wire of the decision, its range or its promise: the decision no longer holds."""
    HEALTH = "health"
    """The training is sick, or ran out of memory."""
    STALL = "stall"
    """The log does not grow any more."""
    CRASH_LOOP = "crash_loop"
    """The job starts again and again and gets no further."""


class Alarm(Record):
    """One reason to act.

    Example: ``Alarm(kind=AlarmKind.WIRE, metric="step_time_s", text="step_time_s 34.1, bound 30", ...)``.
    """

    kind: AlarmKind
    metric: str
    """The wire's metric, the finding's code or ``silence``."""
    text: str
    """What is seen and what was allowed, one sentence."""
    since_step: int | None = None
    """First step of the unbroken stretch; None when the log does not count or it is about no step."""
    origin: Origin | None = None
    """The line of that step."""
    action: str
    """What to do: what to go back to, or what to tune again."""


class Watched(Record):
    """One look at a job.

    Example: no alarm, six wires held, ``unjudged=("lag_max: the log does not tell it",)``.
    """

    alarms: tuple[Alarm, ...] = ()
    held: tuple[str, ...] = ()
    """Metrics of wires that were judged and hold."""
    unjudged: tuple[str, ...] = ()
    """Wires that could not be judged, and why: unknown is not a pass."""
    last_step: int | None = None
    num_steps: int = 0
    """Steps in the log so far."""
    notes: tuple[str, ...] = ()
    """What happened to the log itself: it began again, it is dated in the future."""
