"""Several configurations beside each other on fresh launches: what the waterfall and the confirmation are made of.

Where they have no room beside each other they are launched one at a time: known beforehand by their forecasts, or found
out by a launch that runs out of memory. The surprise: an arm that dies is told apart from the others. A winner that
dies in its confirmation is at fault; a baseline that does so is not the winner's doing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import final

from steptune.core.estimate import Estimate, Source
from steptune.core.framework import LaunchSpec, Session
from steptune.core.knob import Settings
from steptune.core.profile import SampledLengths
from steptune.core.trial import Observation, TrialState
from steptune.stats.ratio import ratio_interval
from steptune.trial.alternate import OneAtATime
from steptune.trial.arm_died import ArmDiedError, blaming
from steptune.trial.blocks import BlockPlan, mean_step_s, rotate_arms, warm_up
from steptune.trial.settle import settle
from steptune.tune.context import Context
from steptune.tune.launches import Blocks
from steptune.tune.once_more import once_more
from steptune.tune.room import too_large_together
from steptune.tune.step_guards import ages_of


@final
@dataclass(kw_only=True, slots=True)
class Arms:
    """Runs the same configurations again and again; once they have proved too large together, one at a time."""

    context: Context
    settings: Sequence[Settings]
    alternate_because: str
    """Why one at a time; empty while all are up together."""

    def run(
        self,
        name: str,
        plan: BlockPlan,
        *,
        seed_shift: int,
        forced: SampledLengths | None,
        is_backwards: bool = False,
        only: Sequence[int] | None = None,
    ) -> Blocks:
        """Launch every configuration afresh and return its blocks: as many and as long in both procedures.

        Args:
            name: of the folder.
            plan: rounds and steps of a block.
            seed_shift: added to the job's seed.
            forced: lengths that every rollout stops at.
            is_backwards: whether arms that are launched one at a time begin with the last one. Drift is then taken out
                by launches in turn; all together they run there and back in each.
            only: numbers of the arms to run; None runs all.

        Raises:
            ArmDiedError: one of them died, or has no room even by itself; it goes by its number among all.
            KilledError: one was killed from outside, twice.
            BudgetSpentError: the budget ends before.
        """
        seed = self.context.job.algorithm.seed + seed_shift
        chosen = range(len(self.settings)) if only is None else only
        specs = [LaunchSpec(settings=dict(self.settings[i]), seed=seed, forced_lengths=forced) for i in chosen]
        starts = _starts(self.context, specs, name)
        say = self.context.progress.say
        try:
            if not self.alternate_because:
                try:
                    return once_more(lambda: _together(self.context, starts, plan), say)
                except ArmDiedError as died:
                    if died.state is not TrialState.OUT_OF_MEMORY:
                        raise
                    self.alternate_because = f"{len(specs)} arms together ran out of memory ({died})"
                    say(f"{name}: {self.alternate_because}; one arm at a time")
            order = tuple(range(len(starts)))[:: -1 if is_backwards else 1]
            return once_more(lambda: _in_turn(self.context, starts, order, plan), say)
        except ArmDiedError as died:
            raise ArmDiedError(chosen[died.arm], died.state, str(died)) from died


def arms_of(context: Context, settings: Sequence[Settings]) -> Arms:
    """Return ``settings`` as arms, one at a time from the start where their forecasts do not fit together."""
    because = too_large_together(context, settings)
    if because:
        context.progress.say(f"{because}; one arm at a time")
    return Arms(context=context, settings=settings, alternate_because=because)


def ratio_of(above: Sequence[Sequence[Observation]], below: Sequence[Sequence[Observation]], weight: float) -> Estimate:
    """Return above / below in the job's objective; swapping the arms gives exactly the inverse."""
    interval = ratio_interval([mean_step_s(b) * weight for b in above], [mean_step_s(b) for b in below])
    return interval.estimate(unit="x", source=Source.MEASURED)


def _starts(context: Context, specs: Sequence[LaunchSpec], name: str) -> list[Callable[[], Session]]:
    """Return what launches each arm into a new folder."""

    def start(arm: int, spec: LaunchSpec) -> Session:
        return context.runs.launch_fresh(context.job, spec, context.run_path("arms", name, str(arm)))

    return [partial(start, arm, spec) for arm, spec in enumerate(specs)]


def _in_turn(
    context: Context, starts: Sequence[Callable[[], Session]], order: Sequence[int], plan: BlockPlan
) -> Blocks:
    made = OneAtATime(launch=starts, ages=ages_of(context.job)).round(order, plan.max_pairs * plan.kept_steps)
    kept = plan.kept_steps
    return [[made[arm][i : i + kept] for i in range(0, len(made[arm]), kept)] for arm in range(len(starts))]


class _Watched:
    """A session that says which arm it was when it dies."""

    def __init__(self, session: Session, arm: int) -> None:
        self.session, self.arm = session, arm

    def run_steps(self, num_steps: int, *, rehearse_s: float = 0.0) -> list[Observation]:
        with blaming(self.arm):
            return self.session.run_steps(num_steps, rehearse_s=rehearse_s)


def _together(context: Context, starts: Sequence[Callable[[], Session]], plan: BlockPlan) -> Blocks:
    sessions: list[_Watched] = []
    try:
        for arm, start in enumerate(starts):
            with blaming(arm):
                sessions.append(_Watched(start(), arm))
        settled = settle(sessions, warm_up(sessions), plan, ages_of(context.job))
        return rotate_arms(sessions, plan.max_pairs, settled)
    finally:
        for each in sessions:
            each.session.close()
