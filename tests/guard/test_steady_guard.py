import pytest
from observation_factory import step as observed

from steptune.core.ages import Ages
from steptune.core.trial import Observation, QueueCount, QueueStats
from steptune.core.verdict import Judgement, Verdict
from steptune.guard.steady import check_steady, imbalance_frac

AGES = Ages(max_staleness=2, own_lag=0)
SYNC = [observed(i) for i in range(2, 14)]


def queued(
    buffered: list[int], *, first: int = 4, lag: int = 2, ages: list[float] | None = None, lost: int = 0
) -> list[Observation]:
    """Steps of 4 groups of 10 tokens each; ``buffered`` groups wait after every step, ``lost`` are nowhere."""
    steps: list[Observation] = []
    for i, waiting in enumerate(buffered):
        trained = 4 * (first + i + 1)
        groups = QueueCount(generated=trained + waiting + lost, trained=trained, dropped=0, buffered=waiting)
        tokens = QueueCount(generated=10 * (trained + waiting), trained=10 * trained, dropped=0, buffered=10 * waiting)
        queue = QueueStats(groups=groups, tokens=tokens, lag_mean=ages[i] if ages else 1.5)
        steps.append(observed(first + i).model_copy(update={"queue": queue, "lag_max": lag}))
    return steps


def judged(candidate: list[Observation], incumbent: list[Observation] = SYNC) -> Verdict:
    return check_steady(candidate, incumbent, ages=AGES)


LEVEL = [2, 3, 2, 3, 3, 2, 2, 3, 3, 2, 3, 2]


def test_a_settled_queue_passes_and_so_does_a_run_that_has_none() -> None:
    assert judged(queued(LEVEL)).judgement is Judgement.PASS
    assert judged(SYNC).judgement is Judgement.PASS
    one_step_off = [observed(i).model_copy(update={"lag_max": 1}) for i in range(4, 16)]
    assert judged(one_step_off).judgement is Judgement.PASS


@pytest.mark.parametrize(
    ("steps", "says"),
    [
        (queued(LEVEL, first=3), "settles at step 4"),  # max(2, 2) + 2
        (queued(LEVEL, first=6, lag=5), "settles at step 7"),  # the oldest token is older than the bound
        (queued(LEVEL[:3]), "need 4 steps"),
        (queued(list(range(12))), "queue has a trend"),
        (queued(list(range(20, 8, -1))), "queue has a trend"),
        (queued(LEVEL, ages=[1.0 + 0.05 * i for i in range(12)]), "age has a trend"),
        (queued(LEVEL, lost=1), "not all used, dropped or waiting"),
        # 2 more groups wait in the second half, 24 are used between the halves' middles: 8 %
        (queued([4, 3, 2, 3, 2, 4, 6, 5, 4, 5, 4, 6]), "differ by +8.3%"),
    ],
)
def test_what_has_not_settled_is_no_number(steps: list[Observation], says: str) -> None:
    for verdict in (judged(steps), judged(SYNC, steps)):
        assert verdict.judgement is Judgement.INCONCLUSIVE
        assert verdict.because.startswith("cannot tell: ")
        assert says in verdict.because


def test_a_step_that_does_not_say_what_waits_is_no_number() -> None:
    steps = queued(LEVEL)
    steps[5] = steps[5].model_copy(update={"queue": None})
    assert "do not say what waits" in judged(steps).because


def test_tokens_balance_within_three_percent() -> None:
    balanced = imbalance_frac([step.queue for step in queued(LEVEL) if step.queue is not None])
    assert balanced == pytest.approx(0.0, abs=0.03)
    assert imbalance_frac([]) is None


def test_every_launch_of_a_trial_begins_with_an_empty_queue_and_is_judged_by_itself() -> None:
    # a second launch counts from step 4 again: over both, tokens used would seem to fall
    assert judged([*queued(LEVEL), *queued(LEVEL)]).judgement is Judgement.PASS
    assert "settles at step 4" in judged([*queued(LEVEL), *queued(LEVEL, first=3)]).because
    assert "queue has a trend" in judged([*queued(LEVEL), *queued(list(range(12)))]).because
    assert judged([*queued(LEVEL), *queued(LEVEL[:3])]).judgement is Judgement.PASS, "a block that settled the time"
    assert judged([*queued(LEVEL[:3]), *queued(LEVEL[:3])]).judgement is Judgement.INCONCLUSIVE


def test_the_short_launches_of_a_confirmation_are_judged_together() -> None:
    rising, level, falling = [2, 2, 3, 3, 4, 5], [3, 2, 3, 2, 2, 3], [5, 4, 3, 3, 2, 2]
    assert "queue has a trend" in judged(queued(rising)).because, "by itself, six steps can look like a trend"
    assert judged([*queued(level), *queued(rising), *queued(falling)]).judgement is Judgement.PASS
    assert judged([*queued([2] * 6), *queued([2] * 6), *queued([3] * 6)]).judgement is Judgement.PASS
    assert "queue has a trend" in judged([step for _ in range(3) for step in queued(rising)]).because
    assert "queue has a trend" in judged([step for _ in range(3) for step in queued(falling)]).because
    # 1 group more in the second half of every launch, 12 used between the halves' middles: 8.3 %
    assert "differ by +8.3%" in judged([step for _ in range(3) for step in queued([3, 2, 3, 4, 3, 4])]).because


def test_an_arm_that_compiled_in_its_counted_steps_is_no_number() -> None:
    before = [observed(num_compiled=0)] * 4
    assert judged(before).judgement is Judgement.PASS
    verdict = judged([*before, observed(num_compiled=3)])
    assert verdict.judgement is Judgement.INCONCLUSIVE
    assert "the candidate compiled 3 graphs in its counted steps" in verdict.because
    assert judged(before, incumbent=[observed(num_compiled=1)] * 4).judgement is Judgement.INCONCLUSIVE
