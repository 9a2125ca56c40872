"""One look of `steptune watch` as text: alarms first, then what holds, then what nobody can know."""

from collections.abc import Mapping

from steptune.core.knob import KnobValue
from steptune.core.watched import Alarm, AlarmKind, Watched
from steptune.report.numbers import count_text

HEADS = {
    AlarmKind.WIRE: "the decision no longer holds",
    AlarmKind.HEALTH: "the training is sick",
    AlarmKind.STALL: "the job is silent",
    AlarmKind.CRASH_LOOP: "the job is in a crash loop",
}
"""What an alarm of each kind means."""

RETURN = "return to the baseline"
"""How an action begins that needs the baseline's settings."""


def watched_text(watched: Watched, back_to: Mapping[str, KnobValue]) -> str:
    """Return one look as text, a line a fact; ``back_to`` are the baseline's settings."""
    lines = [line for alarm in watched.alarms for line in _alarm(alarm)]
    if back_to and any(alarm.action.startswith(RETURN) for alarm in watched.alarms):
        lines.append(f"  the baseline: {', '.join(f'{knob}={value}' for knob, value in sorted(back_to.items()))}")
    if not watched.alarms:
        lines.append(status_line(watched))
    if watched.held:
        lines.append(f"  holds: {', '.join(watched.held)}")
    lines += [f"  not judged: {text}" for text in watched.unjudged]
    lines += [f"  note: {text}" for text in watched.notes]
    return "".join(f"{line}\n" for line in lines)


def status_line(watched: Watched) -> str:
    """Return the line of a look without alarm."""
    at = "no step yet" if not watched.num_steps else f"{count_text(watched.num_steps, 'step')}"
    last = "" if watched.last_step is None else f", the last is {watched.last_step}"
    wires = f"; {count_text(len(watched.held), 'wire')} hold" if watched.held else ""
    return f"watch: {at}{last}; nothing to act on{wires}"


def _alarm(alarm: Alarm) -> list[str]:
    since = "" if alarm.since_step is None else f" since step {alarm.since_step}"
    where = "" if alarm.origin is None else f"  ({alarm.origin.path}:{alarm.origin.line})"
    after = " after" if alarm.kind is AlarmKind.STALL else " since"
    since = since.replace(" since", after, 1)
    return [f"watch: {HEADS[alarm.kind]}{since}: {alarm.text}{where}", f"  do: {alarm.action}"]
