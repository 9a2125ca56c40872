"""What the stages after the search take, priced from what the session itself has measured. Pure.

::

    waterfall       every stage of the winner: [start-up][warm-up] [rehearsal][block] x 4
    reward test     pairs of runs, one a core: [start-up][evaluation?][steps][evaluation]
    confirmation    3 launches of baseline, best practice, winner: [start-up][warm-up] [rehearsal][block] x 2
                    and one of baseline and winner at natural lengths

The surprise: steps are less than half of it. Start-ups, evaluations, blocks that noise makes long and rehearsals, which
take 0.6 s of the fastest step too, are the rest. Counted in baseline steps alone a session kept 248 s and used 379
(2026-12-01; a step of 0.81 s and a winner of 0.17 s); this arithmetic says 367.
"""

import math
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import final

from steptune.core.job import GuardSpec
from steptune.stats.looks import CONFIRM_LOOKS
from steptune.trial.blocks import WARMUP_STEPS, BlockPlan
from steptune.tune.plans import RAW_PLAN, WATERFALL_PLAN

ONE_CORE_SLOWDOWN = 1.5
"""How much longer a step takes on one thread beside another run than on all cores alone (a 1 M model: 1.3 to 1.6)."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class UnitCosts:
    """Seconds of one piece each: ``UnitCosts(step_s=0.81, start_up_s=4.0, evaluate_s=1.7, ...)``."""

    step_s: float
    """A step of the baseline."""
    start_up_s: float
    """From a launch to its first step, mean of the session's so far."""
    evaluate_s: float
    """The held-out problems once, on all cores."""
    best_practice_ratio: float
    """Step time of best practice over the baseline's, by forecast; 1 where nobody knows."""
    confirm_plan: BlockPlan
    """Of a launch of the confirmation, its blocks as long as the noise asks for."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Winner:
    """What the price depends on: ``Winner(ratio=0.2, num_stages=11)``."""

    ratio: float
    """Step time over the baseline's."""
    num_stages: int
    """Rows of its waterfall, the baseline's included; its number of moves and one at most."""
    settling_steps: int = 0
    """Steps that every arm runs beyond its warm-up, where one runs ahead of its trainer."""
    dropped_steps: int = 0
    """Steps that every block of every arm leaves out, where one has a queue."""
    slow_start_s: float = 0.0
    """Seconds that its launch takes longer than others (compiling)."""


def waterfall_s(unit: UnitCosts, winner: Winner) -> float:
    """Return the seconds of the waterfall, as if every stage gained alike.

    Half of the stages are taken to start slowly where the winner does.
    """
    last = winner.num_stages - 1
    steps_s = [unit.step_s * winner.ratio ** (row / last if last else 0.0) for row in range(winner.num_stages)]
    start_ups_s = winner.num_stages * (unit.start_up_s + winner.slow_start_s / 2)
    return start_ups_s + sum(_arm_s(step_s, WATERFALL_PLAN, winner) for step_s in steps_s)


def confirm_s(unit: UnitCosts, winner: Winner) -> float:
    """Return the seconds of a confirmation that its first look settles, natural lengths included."""
    base_s, winner_s = unit.step_s, unit.step_s * winner.ratio
    arms_s = (base_s, base_s * unit.best_practice_ratio, winner_s)
    launch_s = 3 * unit.start_up_s + winner.slow_start_s
    launch_s += sum(_arm_s(step_s, unit.confirm_plan, winner) for step_s in arms_s)
    natural_s = 2 * unit.start_up_s + winner.slow_start_s
    natural_s += sum(_arm_s(step_s, RAW_PLAN, winner) for step_s in (base_s, winner_s))
    return CONFIRM_LOOKS.first * launch_s + natural_s


def least_trial_s(unit: UnitCosts, ratio: float, num_steps: int) -> float:
    """Return the seconds of ``num_steps`` steps of a candidate alone, the shortest trial there is."""
    return unit.start_up_s + (WARMUP_STEPS + num_steps) * unit.step_s * ratio


def training_run_s(unit: UnitCosts, num_steps: int, ratio: float, num_evaluations: int) -> float:
    """Return the seconds of one training run of a reward test, on one core beside others."""
    return ONE_CORE_SLOWDOWN * (unit.start_up_s + num_steps * unit.step_s * ratio + num_evaluations * unit.evaluate_s)


def reward_s(
    unit: UnitCosts, winner: Winner, guard: GuardSpec, *, num_beside: int, is_rate_owed: bool, num_pairs: int
) -> float:
    """Return the seconds of ``num_pairs`` pairs, ``num_beside`` runs at a time and each begun when one has ended.

    Example: 5 pairs of 40 and 13 s on two cores: 151 s, and not half of 265, for the last run has a core to itself.
    """
    baseline_s = training_run_s(unit, guard.reward_steps, 1.0, 2 if is_rate_owed else 1)
    candidate_s = training_run_s(unit, guard.reward_steps, winner.ratio, 1) + ONE_CORE_SLOWDOWN * winner.slow_start_s
    cores = [0.0] * num_beside
    for run_s in (baseline_s, candidate_s) * num_pairs:
        heappush(cores, heappop(cores) + run_s)
    return max(cores)


def _arm_s(step_s: float, plan: BlockPlan, winner: Winner) -> float:
    """Return the seconds of one arm's steps in one launch."""
    block_s = (winner.dropped_steps + plan.kept_steps) * step_s + _rehearsal_s(step_s, plan)
    return (WARMUP_STEPS + winner.settling_steps) * step_s + plan.max_pairs * block_s


def _rehearsal_s(step_s: float, plan: BlockPlan) -> float:
    """Return the seconds before a block: whole steps, at least one."""
    return step_s * max(1, math.ceil(plan.rehearse_s / step_s)) if plan.rehearse_s and step_s > 0 else 0.0
