import math
from collections.abc import Callable

import pytest
from observation_factory import gap, queued, stale_steps, steps

from steptune.core.ages import Ages
from steptune.core.profile import WorkSignature
from steptune.core.verdict import Judgement, Verdict
from steptune.guard import GUARDS
from steptune.guard.entropy_guard import check_entropy
from steptune.guard.gap_growth import check_gap_growth
from steptune.guard.length_shift import check_length
from steptune.guard.memory import check_memory
from steptune.guard.mismatch import check_mismatch
from steptune.guard.off_policy import check_off_policy
from steptune.guard.reward import check_reward
from steptune.guard.reward_rate import check_reward_rate
from steptune.guard.same_work import check_same_work
from steptune.guard.steady import check_steady
from steptune.guard.truncation import check_truncation
from steptune.guard.update_parity import check_update_parity
from steptune.guard.weights_arrived import check_weights_arrived

NAN4 = [math.nan] * 4

BROKEN: dict[str, Callable[[], Verdict]] = {
    "same_work": lambda: check_same_work(
        candidate_work=WorkSignature(), baseline_work=WorkSignature(), candidate=steps(), baseline=steps()
    ),
    "memory": lambda: check_memory(steps(memory_peak_bytes=None), total_bytes=10**12, headroom_frac=0.2),
    "mismatch": lambda: check_mismatch(steps(mismatch=gap(math.nan)), steps(), max_mismatch_k3=1.0),
    "off_policy": lambda: check_off_policy(
        stale_steps(stats=gap(math.nan)), max_staleness=1, own_lag=0, has_correction=True, allow_corrections=True
    ),
    "steady": lambda: check_steady(queued(12, age=math.nan), steps(), ages=Ages(max_staleness=1, own_lag=0)),
    "entropy": lambda: check_entropy(steps(entropy=math.nan), steps()),
    "update_parity": lambda: check_update_parity(
        distance=math.nan,
        shuffled_band=[1.0, 1.0],
        probe_gap=math.nan,
        probe_band=[1.0, 1.0],
        candidate_grad_norms=[1.0],
        baseline_grad_norms=[1.0],
    ),
    "mismatch_growth": lambda: check_gap_growth(
        candidate_k3_SK=[NAN4] * 3, baseline_k3_SK=[[1.0] * 4] * 3, max_mismatch_k3=1.0
    ),
    "weights_arrived": lambda: check_weights_arrived(steps()),
    "truncation": lambda: check_truncation(baseline_truncated_S=NAN4, candidate_truncated_S=NAN4),
    "length": lambda: check_length(baseline_len_S=NAN4, candidate_len_S=NAN4),
    "reward_rate": lambda: check_reward_rate(baseline_equal_S=NAN4, baseline_end_S=NAN4, candidate_S=NAN4),
    "reward": lambda: check_reward(start_S=NAN4, baseline_S=NAN4, candidate_S=NAN4, margin=1.0),
}


def test_every_guard_in_the_table_is_fed_broken_metrics_here() -> None:
    assert set(GUARDS) == set(BROKEN)


@pytest.mark.parametrize("name", GUARDS)
def test_no_guard_passes_on_broken_metrics_and_each_answers_by_its_own_name(name: str) -> None:
    verdict = BROKEN[name]()
    assert verdict.judgement is Judgement.INCONCLUSIVE
    assert verdict.guard == name
    assert verdict.because
    assert verdict.limit
