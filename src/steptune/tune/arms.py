"""Several configurations beside each other on fresh launches: what the waterfall and the confirmation are made of.

The surprise: an arm that dies is told apart from the others. A winner that dies in its confirmation is at fault; a
baseline that does so is not the winner's doing.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager

from steptune.core.errors import KilledError, TrialError
from steptune.core.estimate import Estimate, Source
from steptune.core.framework import LaunchSpec, Session
from steptune.core.knob import Settings
from steptune.core.profile import SampledLengths
from steptune.core.trial import Observation, TrialState
from steptune.stats.ratio import ratio_interval
from steptune.trial.blocks import BlockPlan, mean_step_s, rotate_arms, warm_up
from steptune.trial.settle import settle
from steptune.tune.context import Context
from steptune.tune.launches import Blocks
from steptune.tune.once_more import once_more
from steptune.tune.step_guards import ages_of


class ArmDiedError(TrialError):
    """An arm died or ran out of memory: which one, counted from 0, and how."""

    def __init__(self, arm: int, state: TrialState, cause: str) -> None:
        super().__init__(cause)
        self.arm, self.state = arm, state


def run_arms(
    context: Context,
    settings: Sequence[Settings],
    name: str,
    plan: BlockPlan,
    *,
    seed_shift: int,
    forced: SampledLengths | None,
) -> Blocks:
    """Launch every configuration afresh and return its blocks, there and back.

    Raises:
        ArmDiedError: one of them died or ran out of memory.
        KilledError: one was killed from outside, twice.
        BudgetSpentError: the budget ends before.
    """
    seed = context.job.algorithm.seed + seed_shift
    specs = [LaunchSpec(settings=dict(each), seed=seed, forced_lengths=forced) for each in settings]
    return once_more(lambda: _launch(context, specs, name, plan), context.progress.say)


def ratio_of(above: Sequence[Sequence[Observation]], below: Sequence[Sequence[Observation]], weight: float) -> Estimate:
    """Return above / below in the job's objective; swapping the arms gives exactly the inverse."""
    interval = ratio_interval([mean_step_s(b) * weight for b in above], [mean_step_s(b) for b in below])
    return interval.estimate(unit="x", source=Source.MEASURED)


class _Watched:
    """A session that says which arm it was when it dies."""

    def __init__(self, session: Session, arm: int) -> None:
        self.session, self.arm = session, arm

    def run_steps(self, num_steps: int, *, rehearse_s: float = 0.0) -> list[Observation]:
        with _blaming(self.arm):
            return self.session.run_steps(num_steps, rehearse_s=rehearse_s)


def _launch(context: Context, specs: Sequence[LaunchSpec], name: str, plan: BlockPlan) -> Blocks:
    sessions: list[_Watched] = []
    folder = context.run_path("arms", name)
    try:
        for arm, spec in enumerate(specs):
            with _blaming(arm):
                session = context.runs.launch_fresh(context.job, spec, folder / str(arm))
            sessions.append(_Watched(session, arm))
        settled = settle(sessions, warm_up(sessions), plan, ages_of(context.job))
        return rotate_arms(sessions, plan.max_pairs, settled)
    finally:
        for each in sessions:
            each.session.close()


@contextmanager
def _blaming(arm: int) -> Generator[None]:
    """Say of what dies inside that it was ``arm``; a kill from outside is nobody's doing."""
    try:
        yield
    except KilledError:
        raise
    except MemoryError as error:
        raise ArmDiedError(arm, TrialState.OUT_OF_MEMORY, str(error)) from error
    except TrialError as error:
        raise ArmDiedError(arm, TrialState.FAILED, str(error)) from error
