"""Shares of a batch: every row once, groups whole, and back in their order."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from steptune.core.job import DenseModel
from steptune.engine.knobs import EngineKnobs, RolloutRouting
from steptune.engine.replicas.shares import merged, shares, summed
from steptune.engine.rollout import RolloutEngine
from steptune.engine.routing import group_tokens
from steptune.engine.types import PromptBatch

SPEC = DenseModel(num_layers=1, d_model=16, num_heads=2, num_kv_heads=1, d_ff=16)


def prompts_of(lengths_G: list[int], group_size: int) -> PromptBatch:
    """Return groups with prompts of these lengths; the problem's number is 10 more than the group's."""
    width, group_B = max(lengths_G), torch.arange(len(lengths_G)).repeat_interleave(group_size)
    tokens_GP = torch.tensor([[3 + (g + i) % 7 if i < n else 0 for i in range(width)] for g, n in enumerate(lengths_G)])
    return PromptBatch(
        tokens_BP=tokens_GP[group_B],
        lengths_B=torch.tensor(lengths_G)[group_B],
        group_B=group_B,
        problem_B=group_B + 10,
        sample_B=torch.arange(group_size).repeat(len(lengths_G)),
    )


def groups_of(
    lengths_G: list[int],
    limits_G: list[int],
    routing: RolloutRouting,
    num_replicas: int = 2,
    homes: dict[int, int] | None = None,
    *,
    share_prefill: bool = False,
) -> list[list[int]]:
    """Return the groups of each replica, two rows each."""
    prompts = prompts_of(lengths_G, 2)
    rows_R = shares(
        prompts,
        torch.tensor(limits_G).repeat_interleave(2),
        num_replicas=num_replicas,
        routing=routing,
        share_prefill=share_prefill,
        home_of=homes or {},
    )
    return [prompts.group_B[row_k].unique_consecutive().tolist() for row_k in rows_R]


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=9),
    st.integers(1, 4),
    st.integers(1, 5),
    st.sampled_from(["round_robin", "least_tokens"]),
    st.dictionaries(st.integers(10, 18), st.integers(0, 3)),
)
def test_every_row_has_one_replica_and_a_group_is_never_split(
    lengths_G: list[int], group_size: int, num_replicas: int, routing: RolloutRouting, homes: dict[int, int]
) -> None:
    prompts = prompts_of(lengths_G, group_size)
    home_of = {problem: replica for problem, replica in homes.items() if replica < num_replicas}
    rows_R = shares(
        prompts,
        torch.full_like(prompts.lengths_B, 12),
        num_replicas=num_replicas,
        routing=routing,
        share_prefill=True,
        home_of=home_of,
    )
    assert torch.cat(rows_R).sort().values.tolist() == list(range(prompts.num_rows))
    replicas_of_G = [
        {r for r, row_k in enumerate(rows_R) if g in prompts.group_B[row_k]} for g in range(len(lengths_G))
    ]
    assert all(len(replicas) == 1 for replicas in replicas_of_G)
    for g, replicas in enumerate(replicas_of_G):
        assert home_of.get(10 + g, *replicas) in replicas


def test_in_turn_or_to_whoever_has_fewest_tokens_to_do() -> None:
    assert groups_of([3, 3, 3, 3], [5, 5, 5, 5], "round_robin") == [[0, 2], [1, 3]]
    # two rows of a group may say 40 tokens, those of the others 4 each: the long one is alone
    assert groups_of([3, 3, 3, 3], [40, 4, 4, 4], "least_tokens") == [[0], [1, 2, 3]]
    # nothing known but the prompts: 2 rows x (20 + 5), 2 x (3 + 5), ...
    assert groups_of([20, 3, 3, 3], [5, 5, 5, 5], "least_tokens") == [[0], [1, 2, 3]]


def test_a_shared_prompt_counts_once() -> None:
    assert group_tokens([20, 20], [5, 5], share_prefill=False) == 2 * 20 + 10
    assert group_tokens([20, 20], [5, 5], share_prefill=True) == 20 + 10
    # shared 22, 13, 13, 13 tokens; each row's own 34, 16, 16, 16
    assert groups_of([12, 3, 3, 3], [5, 5, 5, 5], "least_tokens", share_prefill=True) == [[0, 3], [1, 2]]
    assert groups_of([12, 3, 3, 3], [5, 5, 5, 5], "least_tokens", share_prefill=False) == [[0], [1, 2, 3]]


def test_later_turns_go_where_the_earlier_ones_are_and_count_as_load() -> None:
    assert groups_of([3, 3, 3, 3], [5, 5, 5, 5], "round_robin", homes={10: 1, 12: 1}) == [[1], [0, 2, 3]]
    assert groups_of([3, 3, 3, 3], [5, 5, 5, 5], "least_tokens", homes={10: 1, 12: 1}) == [[1, 3], [0, 2]]


def test_what_the_replicas_made_is_the_batch_again() -> None:
    engine = RolloutEngine(SPEC, EngineKnobs(compact_finished=True), vocab_size=16, pad_id=0, eos_id=2)
    prompts = prompts_of([3, 5, 2], 2)
    how = {"max_completion_len": 8, "temperature": 1.0, "seed": 3}
    whole, trace = engine.generate(prompts, **how)  # type: ignore[arg-type]
    rows_R = [torch.tensor([2, 3]), torch.tensor([0, 1, 4, 5])]
    made = [engine.generate(prompts.take(row_k), **how) for row_k in rows_R]  # type: ignore[arg-type]
    batch = merged(prompts, rows_R, [part for part, _ in made])
    assert batch.prompts is prompts
    assert torch.equal(batch.completion_BT, whole.completion_BT)
    assert torch.equal(batch.lengths_B, whole.lengths_B)
    assert torch.equal(batch.versions_BT, whole.versions_BT)
    assert torch.allclose(batch.logprobs_BT, whole.logprobs_BT, atol=1e-5)
    assert abs(batch.entropy - whole.entropy) < 1e-5
    both = summed([part for _, part in made])
    assert sum(both.running_I) == sum(trace.running_I) == int(whole.lengths_B.sum())
    assert both.decode_iterations == len(both.running_I) >= trace.decode_iterations
    assert both.prefill_tokens == trace.prefill_tokens
