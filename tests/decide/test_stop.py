import math

from decision_records import noise

from steptune.decide.stop import cannot_win
from steptune.stats.sequential import sequential_ratio_interval

BROKEN_NOISE = noise().model_copy(update={"within_launch_cv": math.nan})


def test_a_running_trial_is_stopped_only_when_its_best_case_is_inside_the_noise() -> None:
    slow = sequential_ratio_interval([1.3, 1.31, 1.29], [1.0, 1.0, 1.0], max_looks=4)
    unclear = sequential_ratio_interval([1.3, 0.8, 1.1], [1.0, 1.0, 1.0], max_looks=4)
    fast = sequential_ratio_interval([0.7, 0.71, 0.69], [1.0, 1.0, 1.0], max_looks=4)
    assert cannot_win(slow, noise())
    assert not cannot_win(unclear, noise())
    assert not cannot_win(fast, noise())
    assert cannot_win(fast, BROKEN_NOISE)
