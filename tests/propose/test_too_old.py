"""What would train on tokens older than the owner allows is refused before it is tried, and counted."""

from steptune.core.change import Change, Move
from steptune.core.knob import Effect, Restart
from steptune.core.lag import CountedLag, LagPlan, StreamLag
from steptune.core.phase import Role
from steptune.core.work import PlannedWork, WorkItem
from steptune.propose.candidates import Proposal, Refusal
from steptune.propose.too_old import without_too_old

STREAM = StreamLag(
    groups_per_step=8,
    group_size=4,
    updates_per_step=1,
    max_lag=4,
    num_slots=32,
    num_replicas=1,
    routing="in_turn",
    takes_in_flight=False,
    admit_frac=1 / 16,
    share_prefill=True,
)


def work(ages: LagPlan | None) -> PlannedWork:
    item = WorkItem(role=Role.TRAINER, phase="train", curve="train", when={}, x=1, count=1)
    return PlannedWork(
        items=(item,),
        schedule="sync",
        lag=2,
        ages=ages,
        trainer_cores=1,
        rollout_cores=1,
        memory_bytes=0,
        padded_tokens=1,
        active_tokens=1,
    )


def change(name: str) -> Change:
    return Change(moves=(Move(knob=name, old=False, new=True),), effect=Effect.STALENESS, restart=Restart.RELAUNCH)


def proposal(*names: str) -> Proposal:
    return Proposal(
        changes=tuple(change(name) for name in names),
        num_combinations=10,
        num_refused=3,
        refusals=(Refusal(reason="other", count=3),),
        is_complete=True,
    )


def test_an_age_that_follows_from_the_plan_and_breaks_the_limit_is_refused_and_counted() -> None:
    plans = [work(CountedLag(shares=((0, 1.0),))), work(CountedLag(shares=((2, 1.0),)))]
    kept, planned = without_too_old(proposal("fresh", "late"), plans, 1)
    assert kept.changes == (change("fresh"),)
    assert planned == (plans[0],)
    assert kept.num_refused == 4
    reason = "limits.max_staleness is 1: some tokens would be 2 updates old for sure"
    assert kept.refusals[-1] == Refusal(reason=reason, count=1)


def test_what_only_a_race_can_tell_and_what_nobody_says_may_be_tried() -> None:
    plans = [work(STREAM), work(None), work(CountedLag(shares=((0, 1.0), (2, 0.0))))]
    listed = proposal("stream", "unsaid", "none that old")
    assert without_too_old(listed, plans, 1) == (listed, tuple(plans))


def test_an_age_at_the_limit_is_kept() -> None:
    listed, plans = proposal("late"), [work(CountedLag(shares=((2, 1.0),)))]
    assert without_too_old(listed, plans, 2) == (listed, tuple(plans))
