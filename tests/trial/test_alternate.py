"""Trials whose arms are launched one at a time."""

from collections.abc import Callable, Sequence

import pytest

from steptune.core.ages import Ages
from steptune.core.change import Change, Move
from steptune.core.errors import BudgetSpentError, KilledError, TrialError
from steptune.core.framework import Session
from steptune.core.knob import Effect, Restart
from steptune.core.trial import Observation, Trial, TrialState
from steptune.testing.fake_step import fake_observation
from steptune.trial.alternate import CANDIDATE, INCUMBENT, Contest, OneAtATime, run_alternately
from steptune.trial.blocks import BlockPlan, Pair

SYNC = Ages(max_staleness=0, own_lag=0)
PLAN = BlockPlan(max_pairs=4, kept_steps=3)


Fails = Callable[[str], Exception | None]
"""Arm -> what its next step raises."""


class Launcher:
    """Starts runs of two arms and writes down what each does; ``fails`` is asked before every step."""

    def __init__(
        self, lags: tuple[int, int] = (0, 0), fails: Callable[[str], Exception | None] = lambda _: None
    ) -> None:
        self.lags, self.fails = lags, fails
        self.log: list[str] = []
        self.num_up = 0

    def arms(self, ages: Ages = SYNC) -> OneAtATime:
        return OneAtATime(launch=(lambda: self.start(INCUMBENT), lambda: self.start(CANDIDATE)), ages=ages)

    def start(self, arm: int) -> Session:
        self.num_up += 1
        assert self.num_up == 1, "only one arm may be up"
        return Run(self, arm)  # type: ignore[return-value]  nobody asks it for more


class Run:
    def __init__(self, launcher: Launcher, arm: int) -> None:
        self.launcher, self.arm, self.step = launcher, arm, 0
        launcher.log.append(("incumbent", "candidate")[arm])

    def run_steps(self, num_steps: int, *, rehearse_s: float = 0.0) -> list[Observation]:
        assert rehearse_s == 0.0, "no block follows a pause"
        return [self.one() for _ in range(num_steps)]

    def one(self) -> Observation:
        if error := self.launcher.fails(("incumbent", "candidate")[self.arm]):
            raise error
        self.step += 1
        made = fake_observation(self.step - 1, (0.6, 0.3)[self.arm], 0.4, is_off=False)
        return made.model_copy(update={"lag_max": self.launcher.lags[self.arm]})

    def close(self) -> None:
        self.launcher.num_up -= 1


def numbers(steps: Sequence[Observation]) -> list[int]:
    return [step.step for step in steps]


def tried(launcher: Launcher, *, clear_after: int = 99, lost_after: int = 99, num_watched: int = 0) -> Trial:
    change = Change(moves=(Move(knob="a", old=0, new=1),), effect=Effect.NONE, restart=Restart.RELAUNCH)
    contest = Contest(
        number=1, change=change, incumbent_signature="base", devices_ratio=1.0, num_cores=2, because="no room"
    )
    return run_alternately(
        launcher.arms(),
        contest,
        PLAN,
        earlier=(),
        keep_going=lambda pairs: "lost" if len(pairs) >= lost_after else None,
        is_clear=lambda pairs: len(pairs) >= clear_after,
        num_watched=num_watched,
    )


def test_one_arm_is_up_at_a_time_and_the_order_of_pairs_alternates() -> None:
    launcher = Launcher()
    pairs = list(launcher.arms().pairs(PLAN))
    assert launcher.log == ["candidate", "incumbent", "incumbent", "candidate"] * 2
    assert launcher.num_up == 0
    assert all(numbers(pair.incumbent) == numbers(pair.candidate) == [2, 3, 4] for pair in pairs)
    assert pairs[0].ratio == pytest.approx(0.7)  # 0.3 + 0.4 of 0.6 + 0.4


def test_both_arms_leave_out_what_the_one_that_is_further_ahead_owes() -> None:
    launcher = Launcher(lags=(0, 3))
    pairs = list(launcher.arms(Ages(max_staleness=3, own_lag=0)).pairs(PLAN))
    # max(3, 3) + 2 steps
    assert all(numbers(pair.incumbent) == numbers(pair.candidate) == [5, 6, 7] for pair in pairs)
    late = Launcher(lags=(3, 0))  # found out by the second arm, so that the first runs its block again
    pairs = list(late.arms(Ages(max_staleness=3, own_lag=0)).pairs(PLAN))
    assert all(numbers(pair.incumbent) == numbers(pair.candidate) == [5, 6, 7] for pair in pairs)
    assert late.log[:3] == ["candidate", "incumbent", "candidate"]


def test_a_won_trial_ends_and_its_candidate_is_watched_in_a_launch_of_its_own() -> None:
    launcher = Launcher()
    trial = tried(launcher, clear_after=2, num_watched=12)
    assert trial.state is TrialState.FINISHED
    assert trial.alternate_because == "no room"
    assert [(arm.label, numbers(arm.observations)) for arm in trial.arms] == [
        ("incumbent", [2, 3, 4, 2, 3, 4]),
        ("candidate", [2, 3, 4, 2, 3, 4]),
        ("watched", list(range(2, 14))),
    ]
    assert launcher.log[-1] == "candidate"
    assert len(launcher.log) == 5


def test_a_lost_trial_is_stopped_and_nobody_is_watched() -> None:
    launcher = Launcher()
    trial = tried(launcher, lost_after=2, num_watched=12)
    assert (trial.state, trial.cause) == (TrialState.STOPPED, "lost")
    assert len(launcher.log) == 4


def test_a_candidate_that_has_no_room_even_alone_costs_no_launch_of_the_incumbent() -> None:
    launcher = Launcher(fails=lambda arm: MemoryError("3 GB") if arm == "candidate" else None)
    trial = tried(launcher)
    assert (trial.state, trial.cause) == (TrialState.OUT_OF_MEMORY, "the candidate by itself: 3 GB")
    assert launcher.log == ["candidate"]
    assert launcher.num_up == 0


@pytest.mark.parametrize("error", [MemoryError("3 GB"), TrialError("it died")])
def test_an_incumbent_that_dies_says_nothing_of_the_candidate(error: Exception) -> None:
    trial = tried(Launcher(fails=lambda arm: error if arm == "incumbent" else None))
    assert trial.state is TrialState.STOPPED
    assert trial.cause.startswith("the incumbent by itself: ")
    assert trial.arms == ()


def test_a_budget_that_ends_stops_the_trial_and_a_kill_is_nobodys_result() -> None:
    spent = tried(Launcher(fails=lambda _: BudgetSpentError("0 s left")))
    assert (spent.state, spent.cause) == (TrialState.STOPPED, "0 s left")
    with pytest.raises(KilledError):
        tried(Launcher(fails=lambda _: KilledError("killed from outside")))


def test_earlier_pairs_are_kept() -> None:
    steps = tuple(fake_observation(i, 0.6, 0.4, is_off=False) for i in range(3))
    contest = Contest(
        number=1,
        change=Change(moves=(), effect=Effect.NONE, restart=Restart.HOT),
        incumbent_signature="",
        devices_ratio=1.0,
        num_cores=2,
        because="no room",
    )
    trial = run_alternately(
        Launcher().arms(),
        contest,
        PLAN,
        earlier=[Pair(incumbent=steps, candidate=steps)],
        keep_going=lambda _: None,
        is_clear=lambda _: False,
        num_watched=0,
    )
    assert trial.ratio is not None
    assert trial.ratio.n == 5
