"""The decision: what leaves the tool.

::

    no moves, or no confirmed gain, or a gain inside the noise ---> NO_CHANGE    baseline handed back
    died in its confirmation --------------------------------------> REJECT      baseline handed back
    a guard FAILs, or an owed one is absent or INCONCLUSIVE, or slower -> REJECT baseline handed back
    only guards of `MAKES_PROVISIONAL` INCONCLUSIVE ---------------> PROVISIONAL  tuned settings, trip-wires
    every owed guard PASSes --------------------------------------> ADOPT        tuned settings, trip-wires

A failed guard is reported as such even where the gain would not have counted either.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from steptune.core.change import Change
from steptune.core.decision import Decision, Outcome, Range, Tripwire
from steptune.core.estimate import Estimate
from steptune.core.knob import Effect, Restart, Settings, heaviest
from steptune.core.profile import NoiseFloor
from steptune.core.verdict import Verdict
from steptune.decide.break_even import break_even_step
from steptune.decide.gain import Gain, interval_of, is_longer_step, judge_gain, power_text
from steptune.decide.owed import MAKES_PROVISIONAL, OWED_AT_DECISION, absent, failures, undecided
from steptune.decide.trial import Judged
from steptune.stats.looks import CONFIRM_LOOKS
from steptune.stats.noise import MIN_WORTH_FRAC, worth_frac

NOTHING_TRIED = (
    "no change was tried: nothing was forecast to beat the noise, or the budget had ended before; the baseline is "
    "handed back"
)
"""Reason of a decision without a trial."""

GIVEN_UP = "a change led in its trial, but could not be proven harmless; the baseline is handed back"
"""First reason where every trial that led was given up."""

NOTHING_CHANGED = Change(moves=(), effect=Effect.NONE, restart=Restart.HOT)
"""The change of a NO_CHANGE decision."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Costs:
    """What tuning took and what it saves, in seconds.

    Example: ``Costs(wall_s=540, device_s=1080, paid_s=540, baseline_step_s=1.02, tuned_step_s=0.36)``.
    """

    wall_s: float
    device_s: float
    paid_s: float
    """Tuning in the job's objective, as the steps below: wall seconds, or device-seconds."""
    baseline_step_s: float
    tuned_step_s: float


def decide(
    *,
    change: Change,
    num_tried: int,
    baseline: Settings,
    effect: Effect,
    confirmed_speedup: Estimate | None,
    step_speedup: Estimate | None,
    over_best_practice: Estimate | None,
    verdicts: Sequence[Verdict],
    noise: NoiseFloor,
    costs: Costs,
    holds_for: Range | None,
    tripwires: Sequence[Tripwire],
    left_open: Sequence[str] = (),
    fault: str = "",
    notes: Sequence[str] = (),
) -> Decision:
    """Return the decision on the best change found.

    Args:
        change: the incumbent at the end of the search; without moves if nothing won.
        num_tried: trials that ended; with none of them nothing can have won.
        baseline: the baseline's whole configuration, handed back unless the change is adopted.
        effect: effect class; the heavier of it and the change's own counts.
        confirmed_speedup: baseline / tuned of the job's objective from a run that was not used to select.
        step_speedup: baseline / tuned step time of the same run where the objective counts devices, else None.
        over_best_practice: best practice / tuned step time, the headline.
        verdicts: every guard's last word on this change.
        noise: the session's noise floor.
        costs: of the whole session.
        holds_for: lengths it was tested at.
        tripwires: bounds that go out with an adopted change.
        left_open: why trials that led were given up; a reader would else look for a gain that was there.
        fault: how the change died in its confirmation; empty where it did not.
        notes: what became of other winners of the same session; they go behind the reasons.
    """
    outcome, reasons = _judge(
        change, heaviest((effect, change.effect)), confirmed_speedup, step_speedup, verdicts, noise, fault
    )
    if not num_tried:
        reasons = (NOTHING_TRIED,)
    elif not change.moves and left_open:
        reasons = (GIVEN_UP, *left_open)
    is_out = outcome in (Outcome.ADOPT, Outcome.PROVISIONAL)
    is_unchanged = outcome is Outcome.NO_CHANGE
    return Decision(
        outcome=outcome,
        change=NOTHING_CHANGED if is_unchanged else change,
        settings=change.applied_to(baseline) if is_out else dict(baseline),
        speedup=None if is_unchanged else confirmed_speedup,
        speedup_over_best_practice=None if is_unchanged else over_best_practice,
        verdicts=tuple(verdicts),
        reasons=(*reasons, *notes),
        tripwires=tuple(tripwires) if is_out else (),
        holds_for=holds_for if is_out else None,
        cost_wall_s=costs.wall_s,
        cost_device_s=costs.device_s,
        break_even_step=_break_even(costs) if is_out else None,
    )


def _break_even(costs: Costs) -> int | None:
    return break_even_step(
        baseline_step_s=costs.baseline_step_s, tuned_step_s=costs.tuned_step_s, cost_wall_s=costs.paid_s
    )


def _judge(
    change: Change,
    effect: Effect,
    speedup: Estimate | None,
    step_speedup: Estimate | None,
    verdicts: Sequence[Verdict],
    noise: NoiseFloor,
    fault: str,
) -> Judged:
    if not change.moves:
        return Outcome.NO_CHANGE, ("no change that was tried beats the baseline; the baseline is handed back",)
    if fault:
        return Outcome.REJECT, (fault,)
    failed = failures(verdicts)
    if failed:
        return Outcome.REJECT, failed
    if step_speedup is not None and is_longer_step(inverse(step_speedup), MIN_WORTH_FRAC):
        return Outcome.REJECT, (f"fewer devices, but a longer step: step time {step_speedup} the baseline's speed",)
    outcome, reasons = _judge_speed(speedup, noise)
    if outcome is not Outcome.ADOPT:
        return outcome, reasons
    outcome, unproven = _judge_proof(effect, verdicts)
    return outcome, (*reasons, *unproven)


def judge_speedup(speedup: Estimate) -> Gain | None:
    """Judge a confirmed speed-up (old / new time) over fresh launches; None where it is incomplete or impossible.

    Its interval knows the spread between launches, so the least gain worth having is all that is asked beyond it.
    """
    interval = interval_of(speedup)
    if interval is None or interval[1] <= 0:
        return None
    value, low, high = interval
    return judge_gain(value=1.0 / value, low=1.0 / high, high=1.0 / low, worth_frac=MIN_WORTH_FRAC)


def _judge_speed(speedup: Estimate | None, noise: NoiseFloor) -> Judged:
    if worth_frac(noise) is None:
        return Outcome.NO_CHANGE, ("the noise floor is not known, so no gain may be claimed",)
    gain = None if speedup is None else judge_speedup(speedup)
    if speedup is None or gain is None:
        return Outcome.NO_CHANGE, (f"the gain was not confirmed: {speedup}",)
    reason = f"{gain}: confirmed speed-up {speedup}, least gain worth having {MIN_WORTH_FRAC:.0%}"
    if gain is Gain.FASTER:
        return Outcome.ADOPT, (reason,)
    if gain is Gain.SLOWER:
        return Outcome.REJECT, (reason,)
    if gain is Gain.CANNOT_TELL:
        reason += f"; {power_text(inverse(speedup), CONFIRM_LOOKS.tail_at(speedup.n or 0), 'launches')}"
    return Outcome.NO_CHANGE, (reason,)


def inverse(speedup: Estimate) -> Estimate:
    """Return new / old of an old / new."""
    return speedup.model_copy(
        update={"value": 1 / speedup.value, "low": 1 / (speedup.high or 1), "high": 1 / (speedup.low or 1)}
    )


def _judge_proof(effect: Effect, verdicts: Sequence[Verdict]) -> Judged:
    owed = OWED_AT_DECISION.get(effect)
    if owed is None:
        return Outcome.REJECT, (f"a change of effect `{effect}` is never tuned",)
    missing = absent(owed, verdicts)
    if missing:
        return Outcome.REJECT, tuple(f"{guard} was not checked, and unknown is not a pass" for guard in missing)
    open_verdicts = undecided(owed, verdicts)
    reasons = tuple(f"{verdict.guard} is inconclusive: {verdict.because}" for verdict in open_verdicts)
    if not open_verdicts:
        return Outcome.ADOPT, (f"every guard owed by effect `{effect}` passes: {', '.join(owed)}",)
    only_power = all(verdict.guard in MAKES_PROVISIONAL for verdict in open_verdicts)
    return Outcome.PROVISIONAL if only_power else Outcome.REJECT, reasons
