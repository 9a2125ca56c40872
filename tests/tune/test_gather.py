from dataclasses import dataclass, field

import pytest

from steptune.core.change import Change
from steptune.core.decision import Outcome
from steptune.core.estimate import Estimate, Source
from steptune.core.knob import Effect, Restart
from steptune.core.profile import NoiseFloor
from steptune.core.trial import Trial, TrialState
from steptune.testing.fake_step import fake_observation
from steptune.trial.blocks import Pair
from steptune.trial.run import finished_trial
from steptune.tune.gather import TRIAL_PLAN, Judged, gather, plan_for


def pair(ratio: float) -> Pair:
    incumbent, candidate = (
        tuple(fake_observation(i, seconds / 2, seconds / 2, is_off=False) for i in range(TRIAL_PLAN.kept_steps))
        for seconds in (1.0, ratio)
    )
    return Pair(incumbent=incumbent, candidate=candidate)


@dataclass
class Bench:
    """Launches with given ratios, judged as given."""

    launches: list[list[float]]
    outcomes: list[Outcome]
    said: list[str] = field(default_factory=list)

    def run(self, earlier: tuple[Pair, ...]) -> Trial:
        return finished_trial(
            [*earlier, *(pair(ratio) for ratio in self.launches.pop(0))],
            number=1,
            change=Change(moves=(), effect=Effect.NONE, restart=Restart.HOT),
            state=TrialState.FINISHED,
            cause="",
            incumbent_signature="base",
            wall_s=10.0,
            num_cores=2,
            load_avg=None,
        )

    def judge(self, trial: Trial) -> Judged:
        return (), self.outcomes.pop(0), ()

    def gathered(self, line: float = 1.0) -> tuple[Trial, Outcome]:
        trial, judged = gather(self.run, self.judge, self.said.append, TRIAL_PLAN, line)
        return trial, judged[1]


def test_a_settled_trial_has_one_launch() -> None:
    trial, outcome = Bench([[0.8] * 4, [0.1] * 4], [Outcome.ADOPT]).gathered()
    assert (outcome, trial.cost_wall_s) == (Outcome.ADOPT, 10.0)


def test_an_open_one_gets_a_second_launch_that_adds_to_its_pairs_and_its_cost() -> None:
    bench = Bench([[0.8, 1.0, 0.8, 1.0], [0.9] * 4], [Outcome.EXTEND, Outcome.REJECT])
    trial, outcome = bench.gathered()
    assert outcome is Outcome.REJECT
    assert trial.ratio is not None
    assert trial.ratio.n == 8
    # geometric mean of 0.8, 1, 0.8, 1 and four times 0.9: (0.64 * 0.9^4)^(1/8)
    assert trial.ratio.value == pytest.approx((0.64 * 0.9**4) ** 0.125)
    assert (trial.cost_wall_s, trial.cost_device_s) == (20.0, 40.0)
    assert bench.said


def test_an_open_one_that_looks_slower_is_left_at_that() -> None:
    trial, outcome = Bench([[1.2, 0.9, 1.2, 0.9]], [Outcome.EXTEND]).gathered()
    assert (outcome, trial.cost_wall_s) == (Outcome.EXTEND, 10.0)


def test_an_open_one_whose_gain_would_not_be_worth_having_is_left_at_that() -> None:
    trial, _ = Bench([[0.995] * 4], [Outcome.EXTEND]).gathered(line=0.99)
    assert trial.cost_wall_s == 10.0


@pytest.mark.parametrize(
    ("half_width", "steps"),
    [(0.02, 3), (0.0318, 4), (0.0445, 7), (0.2, 8)],  # 0.0445 = 2.201 * 7 % / sqrt(12): (7 / 2.75)^2 = 6.5
)
def test_blocks_grow_with_the_noise_of_the_repeat(half_width: float, steps: int) -> None:
    ratio = Estimate(
        value=1.0, low=2.718281828**-half_width, high=2.718281828**half_width, unit="x", source=Source.DERIVED
    )
    for n, expected in ((12, steps), (None, 3)):
        noise = NoiseFloor(
            within_launch_cv=0.05,
            between_launch_frac=0.01,
            aa_ratio=ratio.model_copy(update={"n": n}),
            num_steps=24,
        )
        assert plan_for(TRIAL_PLAN, noise).kept_steps == expected
