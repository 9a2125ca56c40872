"""What partial rollouts cost, in counts: no token is lost, tails are left to the next step, prefill is paid again."""

from hypothesis import given
from hypothesis import strategies as st

from steptune.adapters.embedded.carry_plan import carried_counts
from steptune.adapters.embedded.decode_plan import StreamCounts, running_rows

Lengths = st.lists(st.integers(1, 12), min_size=12, max_size=12)


def counts_of(lengths: list[int], *, lag: int = 1, num_slots: int = 6, share_prefill: bool = True) -> StreamCounts:
    """Steps of two groups of two rows, prompts of 9; three groups in the making."""
    return carried_counts(
        [[9] * len(lengths), lengths],
        group_size=2,
        per_step=2,
        capacity=3,
        max_lag_steps=lag,
        num_slots=num_slots,
        share_prefill=share_prefill,
    )


@given(Lengths, st.sampled_from([1, 2]), st.sampled_from([2, 6]))
def test_about_a_steps_tokens_are_decoded_a_step(lengths: list[int], lag: int, num_slots: int) -> None:
    counts = counts_of(lengths, lag=lag, num_slots=num_slots)
    tokens = sum(rows * times for rows, times in counts.decode.items())
    a_group = max(lengths[i] + lengths[i + 1] for i in range(0, 12, 2))
    # what is in the making at the two ends differs by at most three of the largest groups
    assert abs(tokens - sum(lengths)) <= 3 * a_group
    assert max(counts.decode) <= num_slots


def test_a_long_row_goes_on_instead_of_holding_the_step() -> None:
    step = [2, 2, 2, 12]
    synchronous, _ = running_rows(step, concurrency=None, continuous=True)
    carried = counts_of(step * 3)
    assert sum(carried.decode.values()) / 3 < sum(synchronous.values())


def test_what_goes_on_is_prefilled_again_with_what_it_has_said() -> None:
    equal = counts_of([5] * 12)
    # equal rows: a step's two groups and the third are whole together; two fresh prompts of nine a step
    assert set(equal.prefill) == {2 * 8}
    assert max(counts_of([2, 2, 2, 12] * 3).prefill) > 2 * 8


def test_a_group_as_old_as_it_may_be_holds_the_step() -> None:
    step = [2, 2, 2, 12]
    assert sum(counts_of(step * 3, lag=1).decode.values()) >= sum(counts_of(step * 3, lag=4).decode.values())
