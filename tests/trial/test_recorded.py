"""A recorded incumbent answers with the same reference steps that its candidate runs."""

import pytest
from test_blocks import observed

from steptune.trial.blocks import WARMUP_STEPS, BlockPlan
from steptune.trial.recorded import NotRecordedError, recorded

PLAN = BlockPlan(max_pairs=1, kept_steps=3)


def test_the_first_block_after_a_warm_up_is_found_by_step_number() -> None:
    first = [observed(number) for number in range(8)]
    second = [observed(number, 2.0) for number in range(8)]
    found = recorded([*first, *second], PLAN)
    assert found is not None
    assert found.run_steps(3) == first[WARMUP_STEPS : WARMUP_STEPS + 3]


def test_a_block_of_which_a_step_was_not_recorded_is_none() -> None:
    steps = [observed(number) for number in (2, 4, 5)]
    assert recorded(steps, PLAN) is None
    assert recorded([], PLAN) is None


def test_it_goes_on_from_the_step_where_its_candidate_has_settled() -> None:
    steps = [observed(number) for number in range(9)]
    found = recorded(steps, PLAN)
    assert found is not None
    found.skip_to(5)
    assert found.run_steps(3) == steps[5:8]
    with pytest.raises(NotRecordedError, match="steps 8 to 10"):
        found.run_steps(3)
