"""The best next changes against a bottleneck, written as the user would write them.

Nothing here changes what is trained. What keeps the results comes first; what touches precision or staleness says
so, because their limits are the job owner's. A change that needs a value nobody stated is not offered.
"""

from collections.abc import Set

from steptune.core.bottleneck import BottleneckKind
from steptune.core.estimate import Estimate
from steptune.core.finding import Remedy
from steptune.core.knob import Effect, KnobValue
from steptune.diagnose.config_lines import Change, config_lines
from steptune.diagnose.job import Job, plain_number
from steptune.published.declared import normal_key
from steptune.published.moves import Move, Step, moves

MAX_REMEDIES = 3
"""More than three next steps are a list, not advice."""

_LABELS = {
    Effect.NONE: "",
    Effect.PRECISION: " (touches precision: check the mismatch)",
    Effect.STALENESS: " (touches staleness: within your limit only)",
}


def remedies(
    job: Job, kind: BottleneckKind, ceiling: Estimate | None, present: Set[BottleneckKind] = frozenset()
) -> tuple[Remedy, ...]:
    """Return at most three changes; their step time is the ceiling that none of them can beat, where it is known.

    ``present`` are the kinds found in the job: a move against generation may be pointless beside one of them.
    """
    best = (
        ceiling.model_copy(update={"note": "ceiling: no change against this cause can do better"}) if ceiling else None
    )
    offered: list[Remedy] = []
    unvalued: list[Remedy] = []
    for move in moves(_dialect(job), kind):
        if present & set(move.not_with):
            continue
        changes = _changes(job, move)
        if changes:
            text = f"{move.text}{_now(job, move)}{_LABELS[move.touches]}"
            lines = config_lines(job, changes)
            offered.append(Remedy(text=text, lines=lines, step_time=best, source=move.source))
        elif hint := _without_value(job, move):
            unvalued.append(
                Remedy(text=f"{move.text}: {hint}{_LABELS[move.touches]}", step_time=best, source=move.source)
            )
    return tuple([*offered, *unvalued][:MAX_REMEDIES])


def _without_value(job: Job, move: Move) -> str:
    """What to do where the value in force is not in the input, for moves that depend on it alone; else empty."""
    words = {"*": "raise", "+": "raise", "/": "lower"}
    if not _is_met(job, move) or any(step.op not in words or step.default for step in move.steps):
        return ""
    known = [job.settings.get(normal_key(step.key)) for step in move.steps]
    if any(setting is not None and setting.is_resolved for setting in known):
        return ""
    return " and ".join(f"{words[step.op]} `{step.key}` (its value is not in this input)" for step in move.steps)


def _dialect(job: Job) -> str:
    """The framework whose keys the job uses; EasyR1 is read as verl but has names of its own."""
    if any(key.startswith("worker.") for key in job.settings):
        return "easyr1"
    return job.paste.framework or ""


def _changes(job: Job, move: Move) -> list[Change]:
    """The move's new values, or nothing when one of them has none or a need is not met."""
    if not _is_met(job, move):
        return []
    changes = [_change(job, step) for step in move.steps]
    return [c for c in changes if c is not None] if all(changes) else []


def _is_met(job: Job, move: Move) -> bool:
    """Whether what the move needs is in force; ``schedule`` is that of the mean step, anything else a setting."""
    if move.needs is None:
        return True
    key, value = move.needs
    if key == "schedule":
        return job.profile is not None and job.profile.schedule == value
    needed = job.settings.get(normal_key(key))
    return needed is not None and str(needed.value).lower() == value.lower()


def _change(job: Job, step: Step) -> Change | None:
    setting = job.settings.get(normal_key(step.key))
    stated = setting.value if setting is not None and setting.is_resolved else None
    if setting is not None and not setting.is_resolved:
        return None
    key = setting.key if setting is not None else step.key
    if step.op in ("flag", "drop"):
        is_on = stated is True or (isinstance(stated, str) and stated.lower() == "true")
        if step.op == "flag":
            return None if is_on else Change(key=key, value=True, is_flag=True)
        return Change(key=key, value=False, is_flag=True) if is_on else None
    if step.op in ("=", "!="):
        in_force = stated if stated is not None or step.op == "!=" else step.default
        return None if _same(in_force, step.value) else Change(key=key, value=_typed(step.value))
    value = _moved(step, stated if stated is not None else _typed(step.default))
    return None if value is None else Change(key=key, value=value)


def _moved(step: Step, now: object) -> KnobValue:
    """The value after a relative operation, or None when it is unknown, no number, or already at the limit."""
    if isinstance(now, bool) or not isinstance(now, int | float) or plain_number(now) is None:
        return None
    amount = float(step.value)
    if step.op == "*":
        return type(now)(now * amount) if now > 0 else None
    if step.op == "/":
        return int(now // amount) if now >= amount and now % amount == 0 else None
    value = round(min(now + amount, float(step.limit)), 4)
    return value if value > now else None


def _same(now: object, wanted: str) -> bool:
    return now is not None and str(now).lower() == wanted.lower()


def _typed(text: str) -> KnobValue:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text or None


def _now(job: Job, move: Move) -> str:
    stated = [job.settings[normal_key(s.key)] for s in move.steps if normal_key(s.key) in job.settings]
    if stated:
        return "; now " + ", ".join(f"`{s.key}={s.text}`" for s in stated)
    if any(step.op == "!=" for step in move.steps):
        return ", unless your version does so by default"
    defaults = [step.default for step in move.steps if step.default and step.op in ("*", "/", "+")]
    # a log alone rarely says what is in force: who runs at 0.85 must not read the line below as advice to go down
    return f"; counted from the default of {', '.join(defaults)}, as this input states none" if defaults else ""
