"""Arms that have no room beside each other: every block is a launch of its own, and one arm is up at a time.

::

    candidate: launch, lead, block, end      incumbent: launch, lead, block, end      a pair
    incumbent ...                            candidate ...                            the next: order reversed (ABBA)

The lead is run and not counted: the first steps after a switch are slow, and a run that samples ahead of its trainer
has to settle. It is equally long for all arms, or they would count other steps of the reference lengths. The surprise:
nobody rehearses, for no block follows a pause; and the candidate is up first, so that one which does not fit even alone
costs no launch of the other.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import final

from steptune.core.ages import Ages
from steptune.core.change import Change
from steptune.core.errors import BudgetSpentError
from steptune.core.framework import Session
from steptune.core.trial import Observation, Trial, TrialState
from steptune.trial.arm_died import ArmDiedError, blaming
from steptune.trial.blocks import WARMUP_STEPS, BlockPlan, KeepGoing, Pair
from steptune.trial.run import finished_trial, judged_pairs
from steptune.trial.settle import MAX_ROUNDS

INCUMBENT, CANDIDATE = 0, 1
"""Arms of a trial."""


@final
@dataclass(kw_only=True, slots=True)
class OneAtATime:
    """``OneAtATime(launch=(start_incumbent, start_candidate), ages=ages)``; raises `ArmDiedError` where an arm dies."""

    launch: Sequence[Callable[[], Session]]
    """Starts a run of each arm."""
    ages: Ages
    lead: int = WARMUP_STEPS
    """Steps before a block; grows to what the arm that is furthest ahead of its trainer owes."""

    def pairs(self, plan: BlockPlan) -> Iterator[Pair]:
        """Yield pair after pair of incumbent and candidate; a consumer that stops iterating stops the launches."""
        for index in range(plan.max_pairs):
            order = (CANDIDATE, INCUMBENT) if index % 2 == 0 else (INCUMBENT, CANDIDATE)
            made = self.round(order, plan.kept_steps)
            yield Pair(incumbent=made[INCUMBENT], candidate=made[CANDIDATE])

    def round(self, order: Sequence[int], num_steps: int) -> dict[int, tuple[Observation, ...]]:
        """Run one block of each arm; again where a later arm's lead proves longer."""
        made = {arm: (self.block(arm, num_steps), self.lead) for arm in order}
        for arm, (_, lead) in list(made.items()):
            if lead != self.lead:
                made[arm] = (self.block(arm, num_steps), self.lead)
        return {arm: steps for arm, (steps, _) in made.items()}

    def block(self, arm: int, num_steps: int) -> tuple[Observation, ...]:
        """Launch an arm, run its lead and return the ``num_steps`` steps after it."""
        with blaming(arm):
            session = self.launch[arm]()
            try:
                self._run_lead(session)
                return tuple(session.run_steps(num_steps))
            finally:
                session.close()

    def _run_lead(self, session: Session) -> None:
        seen = list(session.run_steps(self.lead))
        for _ in range(MAX_ROUNDS):
            more = self.ages.steps_owed(seen) - self.lead
            if more <= 0:
                return
            seen += session.run_steps(more)
            self.lead += more


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Contest:
    """What a trial in alternate launches is about."""

    number: int
    change: Change
    incumbent_signature: str
    devices_ratio: float
    """See `core.trial.Trial`."""
    num_cores: int
    because: str
    """Why the arms are not resident together."""


def run_alternately(
    arms: OneAtATime,
    contest: Contest,
    plan: BlockPlan,
    *,
    earlier: Sequence[Pair],
    keep_going: KeepGoing,
    is_clear: Callable[[Sequence[Pair]], bool],
    num_watched: int,
) -> Trial:
    """Run a trial whose arms are launched in turn and return it in a terminal state.

    ``num_watched`` steps of the candidate in one launch follow pairs that were not lost: a block is too short for what
    shows over steps. See `trial.run.run_trial` for the rest.

    Raises:
        KilledError: a run of either arm was killed from outside.
    """
    started_s, load_avg = time.monotonic(), os.getloadavg()[0]
    pairs, watched = list(earlier), tuple[Observation, ...]()
    try:
        state, cause = judged_pairs(arms.pairs(plan), pairs, keep_going, is_clear)
        if state is TrialState.FINISHED and num_watched:
            watched = arms.block(CANDIDATE, num_watched)
    except ArmDiedError as died:
        state, cause = _died(died)
    except BudgetSpentError as error:
        state, cause = TrialState.STOPPED, str(error)
    return finished_trial(
        pairs,
        number=contest.number,
        change=contest.change,
        state=state,
        cause=cause,
        incumbent_signature=contest.incumbent_signature,
        wall_s=time.monotonic() - started_s,
        num_cores=contest.num_cores,
        load_avg=load_avg,
        devices_ratio=contest.devices_ratio,
        watched=watched,
        alternate_because=contest.because,
    )


def _died(died: ArmDiedError) -> tuple[TrialState, str]:
    """Return how a death ends the trial: the candidate's is its result, the incumbent's says nothing of the change."""
    how = died.state.replace("_", " ")
    if died.arm == CANDIDATE:
        return died.state, f"the candidate by itself: {died}"
    return TrialState.STOPPED, f"the incumbent by itself: {how}: {died}"
