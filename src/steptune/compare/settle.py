"""What would settle an open comparison: the smallest thing to run or to log next."""

import math

from steptune.compare.judge import Facts
from steptune.compare.ratio import LAUNCH_CV, SINGLE_STEP_CV
from steptune.compare.side import Side
from steptune.core.comparison import SpeedVerdict
from steptune.published.declared import Concept, declared_keys
from steptune.stats.noise import Z_95

GOOD_STEPS = 8
"""Steady steps a side after which more of the same launch teach little: the spread between launches remains."""

WORK_CONCEPTS: tuple[Concept, ...] = ("prompts_per_step", "group_size", "max_completion_len")
"""What must be equal before anything else."""


def settle(facts: Facts, a: Side, b: Side, verdict: SpeedVerdict) -> tuple[str, ...]:
    """Return what would settle it; empty where the verdict stands."""
    if verdict is not SpeedVerdict.NO_PROOF:
        return ()
    said: list[str] = []
    if facts.work.sameness == "differs":
        said.append(f"run both with the same {_work_keys(a, b)}")
    if facts.work.sameness == "unknown":
        said.append("hand in both configurations: prompts per step, group size and length limits")
    if facts.unsteady:
        said.append("compare only steps after the ramp-up, at a constant asynchronous level")
    if facts.measure is None or not facts.measure.name.startswith(("tokens", "trained tokens")):
        said.append("log tokens per step and seconds per step on both sides")
    said += _repeats(facts)
    if facts.has_reward_drop:
        said.append("repeat both with several seeds, and compare reward over the same steps")
    return tuple(said)


def launches_needed(log_ratio: float) -> int:
    """Return how many interleaved launches a side would show a difference as large as ``log_ratio``."""
    if log_ratio == 0:
        return 0
    return max(2, math.ceil(2 * (Z_95 * LAUNCH_CV / abs(log_ratio)) ** 2))


def _repeats(facts: Facts) -> list[str]:
    measure = facts.measure
    if measure is None or facts.unsteady:
        return []
    said: list[str] = []
    if min(measure.a.n, measure.b.n) < GOOD_STEPS:
        band = Z_95 * math.sqrt(2) * SINGLE_STEP_CV
        said.append(
            f"log at least {GOOD_STEPS} steps after warm-up on each side: single steps of equal runs differ by up to "
            f"{band:.0%}"
        )
    num = launches_needed(math.log(measure.ratio.value))
    if 0 < num <= 12:
        said.append(f"launch each side {num} times, taking turns (A B A B)")
    elif num > 12:
        said.append("the difference is too small to be worth proving: an A/A repeat would show the noise first")
    return said


def _work_keys(a: Side, b: Side) -> str:
    keys: list[str] = []
    for concept in WORK_CONCEPTS:
        setting = a.setting(concept) or b.setting(concept)
        if setting is not None and a.number(concept) != b.number(concept):
            keys.append(setting.key)
    return " and ".join(keys) if keys else f"work ({', '.join(declared_keys('group_size')[:1])}, batch, lengths)"
