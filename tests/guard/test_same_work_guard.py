from typing import Any

import pytest
from observation_factory import steps

from steptune.core.profile import WorkSignature
from steptune.core.trial import Observation
from steptune.core.verdict import Judgement, Verdict
from steptune.guard.same_work import check_same_work

WORK = WorkSignature(prompts_per_step=32, group_size=8, max_completion_len=40, num_updates=1)


def judged(
    candidate: list[Observation], work: WorkSignature = WORK, baseline: list[Observation] | None = None
) -> Verdict:
    return check_same_work(
        candidate_work=work,
        baseline_work=WORK,
        candidate=candidate,
        baseline=steps() if baseline is None else baseline,
    )


def test_equal_work_passes_even_with_unequal_numbers_of_steps() -> None:
    verdict = judged(steps(5))
    assert verdict.judgement is Judgement.PASS
    assert verdict.measured is not None
    assert verdict.measured.value == 7000


@pytest.mark.parametrize(
    "changed", [{"group_size": 4}, {"prompts_per_step": 16}, {"max_completion_len": 32}, {"num_updates": 2}]
)
def test_a_smaller_job_is_not_a_faster_one(changed: dict[str, int]) -> None:
    # report V37: a "+44 %" gain was group size 5 -> 4 and batch 256 -> 128
    verdict = judged(steps(), WORK.model_copy(update=changed))
    assert verdict.judgement is Judgement.FAIL
    assert next(iter(changed)) in verdict.because


@pytest.mark.parametrize("changed", [{"completion_tokens": 3900}, {"prompt_tokens": 3100}, {"num_rollouts": 255}])
def test_realised_work_that_differs_by_over_a_thousandth_fails(changed: dict[str, int]) -> None:
    assert judged(steps(**changed)).judgement is Judgement.FAIL


def test_a_token_in_ten_thousand_is_a_rounding_of_the_count() -> None:
    assert judged(steps(completion_tokens=4005)).judgement is Judgement.PASS


def test_unknown_declared_work_is_inconclusive_unless_a_known_part_differs() -> None:
    unknown = WORK.model_copy(update={"num_updates": None})
    assert judged(steps(), unknown).judgement is Judgement.INCONCLUSIVE
    assert "num_updates" in judged(steps(), unknown).because
    assert judged(steps(), unknown.model_copy(update={"group_size": 4})).judgement is Judgement.FAIL


BROKEN: dict[str, dict[str, Any]] = {
    "no steps": {"count": 0},
    "no tokens": {"prompt_tokens": 0, "completion_tokens": 0},
    "no rollouts": {"num_rollouts": 0},
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN.keys())
def test_an_arm_that_did_nothing_is_inconclusive(broken: dict[str, Any]) -> None:
    assert judged(steps(**broken)).judgement is Judgement.INCONCLUSIVE
    assert judged(steps(), baseline=steps(**broken)).judgement is Judgement.INCONCLUSIVE
