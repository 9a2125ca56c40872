from dataclasses import dataclass

import pytest
from test_blocks import Recorded, observed

from steptune.core.ages import Ages
from steptune.core.trial import Observation, QueueCount, QueueStats
from steptune.trial.blocks import BlockPlan, run_block
from steptune.trial.settle import settle

PLAN = BlockPlan(max_pairs=4, kept_steps=3)
QUEUE = QueueStats(
    groups=QueueCount(generated=2, trained=1, dropped=0, buffered=1),
    tokens=QueueCount(generated=20, trained=10, dropped=0, buffered=10),
    lag_mean=1.0,
)


def seen(lag: int, queue: QueueStats | None = None) -> list[Observation]:
    return [observed(i).model_copy(update={"lag_max": lag, "queue": queue}) for i in range(2)]


def test_a_synchronous_trial_is_as_it_was() -> None:
    arms = [Recorded("A"), Recorded("B")]
    assert settle(arms, seen(0), PLAN, Ages(max_staleness=4, own_lag=0)) == PLAN
    assert settle(arms, seen(3), PLAN, Ages(max_staleness=4, own_lag=3)) == PLAN, "the algorithm's own updates"
    assert [arm.num_steps for arm in arms] == [0, 0]


@pytest.mark.parametrize(
    ("lag", "bound", "more"),
    [(1, 1, 1), (1, 3, 3), (5, 2, 5)],  # max(bound, oldest) + 2, less the two steps of warm-up
)
def test_all_arms_run_on_until_the_one_that_is_ahead_may_count(lag: int, bound: int, more: int) -> None:
    arms = [Recorded("A"), Recorded("B")]
    plan = settle(arms, seen(lag), PLAN, Ages(max_staleness=bound, own_lag=0))
    assert [arm.num_steps for arm in arms] == [more, more]
    assert plan == PLAN, "one step off keeps no queue that a pause could fill"


def test_a_run_with_a_queue_leaves_out_what_a_pause_has_stocked_up() -> None:
    arm = Recorded("A")
    plan = settle([arm], seen(2, QUEUE), PLAN, Ages(max_staleness=2, own_lag=0))
    before = arm.num_steps
    block = run_block(arm, plan)
    assert [step.step for step in block] == [before + 2, before + 3, before + 4]


def test_an_arm_that_is_warm_is_taken_to_where_the_others_have_run() -> None:
    arm, asked = Recorded("B"), list[int]()
    settle([arm], seen(1), PLAN, Ages(max_staleness=3, own_lag=0), asked.append)
    assert (arm.num_steps, asked) == (3, [5])
    settle([arm], seen(0), PLAN, Ages(max_staleness=3, own_lag=0), asked.append)
    assert asked == [5], "nobody ran on, so nobody has to follow"


@dataclass
class Ageing(Recorded):
    """A run whose tokens grow as old as its steps, up to a bound."""

    oldest: int = 0

    def run_steps(self, num_steps: int, *, rehearse_s: float = 0.0) -> list[Observation]:
        made = super().run_steps(num_steps, rehearse_s=rehearse_s)
        return [step.model_copy(update={"lag_max": min(step.step, self.oldest)}) for step in made]


def test_a_run_whose_tokens_are_older_than_it_first_seemed_goes_on() -> None:
    # lag 1 after two steps: three are owed; each shows older tokens, until lag 4 owes six
    arm = Ageing("A", num_steps=2, oldest=4)
    settle([arm], seen(1), PLAN, Ages(max_staleness=1, own_lag=0))
    assert arm.num_steps == 6
    arm = Ageing("A", num_steps=2, oldest=10**6)
    settle([arm], seen(1), PLAN, Ages(max_staleness=1, own_lag=0))
    assert arm.num_steps == 10, "tokens that only age are no reason to run for ever"
