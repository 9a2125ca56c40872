"""Who takes the next free slot, and what that saves."""

import torch

from steptune.core.job import DenseModel
from steptune.engine.knobs import EngineKnobs
from steptune.engine.model import build_model
from steptune.engine.produce import PAD, TOKENIZER, prompt_batch
from steptune.engine.rollout import RolloutEngine
from steptune.engine.types import RolloutBatch, RolloutTrace
from steptune.engine.waiting import LengthHistory, Waiting

SPEC = DenseModel(num_layers=1, d_model=16, num_heads=2, num_kv_heads=1, d_ff=16)
STATE = build_model(SPEC, TOKENIZER.vocab_size, seed=0).state_dict()
NAN = torch.nan


def engine(order: str, **knobs: object) -> RolloutEngine:
    settings = {"admit_order": order, "compact_finished": True, **knobs}
    made = RolloutEngine(
        SPEC,
        EngineKnobs.model_validate(settings),
        vocab_size=TOKENIZER.vocab_size,
        pad_id=PAD,
        eos_id=TOKENIZER.eos_id,
    )
    made.load(STATE, 0)
    return made


def generate(made: RolloutEngine, lengths: list[int], group_size: int = 1) -> tuple[RolloutBatch, RolloutTrace]:
    num_prompts = len(lengths) // group_size
    prompts = prompt_batch([f"{i}+{i}=" for i in range(num_prompts)], range(num_prompts), group_size)
    return made.generate(
        prompts, max_completion_len=20, temperature=1.0, seed=0, forced_lengths_B=torch.tensor(lengths)
    )


def test_with_nothing_known_rows_come_in_order_of_arrival() -> None:
    for expected in (None, torch.full((5,), NAN)):
        waiting = Waiting(torch.tensor([0, 0, 1, 1, 2]), expected)
        assert waiting.take(2).tolist() == [0, 1]
        assert waiting.take(9).tolist() == [2, 3, 4]
        assert len(waiting) == 0
        assert waiting.take(3).tolist() == []


def test_the_longest_expected_row_is_next_and_equals_keep_their_order() -> None:
    waiting = Waiting(torch.arange(5), torch.tensor([3.0, 9.0, 3.0, 9.0, 12.0]))
    assert waiting.take(3).tolist() == [4, 1, 3]
    assert waiting.take(2).tolist() == [0, 2]


def test_an_unknown_row_stands_where_the_mean_of_the_known_ones_would() -> None:
    waiting = Waiting(torch.arange(4), torch.tensor([2.0, NAN, 10.0, 7.0]))
    assert waiting.take(4).tolist() == [2, 3, 1, 0]  # unknown: (2 + 10 + 7) / 3 = 6.3


def test_finished_siblings_outweigh_the_past() -> None:
    waiting = Waiting(torch.tensor([0, 0, 1, 1]), torch.tensor([9.0, 9.0, 2.0, 2.0]))
    assert waiting.take(1).tolist() == [0]
    waiting.note(torch.tensor([0]), torch.tensor([1]))
    assert waiting.take(1).tolist() == [2]  # group 0 wrote 1 token, group 1 is expected to write 2


def test_history_is_the_last_mean_of_each_problem() -> None:
    history = LengthHistory()
    assert history.expected(torch.tensor([7])).isnan().all()
    history.note(torch.tensor([7, 7, 8]), torch.tensor([2, 4, 9]))
    history.note(torch.tensor([8]), torch.tensor([5]))
    assert history.expected(torch.tensor([8, 7])).tolist() == [5.0, 3.0]


def test_starting_the_long_row_first_saves_its_lonely_end() -> None:
    lengths = [4, 4, 4, 4, 12]
    # 2 slots: 4 iterations for rows 0 and 1, 4 for rows 2 and 3, then row 4 alone for 12
    _, arrival = generate(engine("arrival", rollout_concurrency=2), lengths)
    assert arrival.decode_iterations == 20
    # nothing is known the first time; the second time row 4 runs 12 beside three of the others, the last for 4
    made = engine("longest_first", rollout_concurrency=2)
    first, blind = generate(made, lengths)
    second, informed = generate(made, lengths)
    assert blind.decode_iterations == 20
    assert informed.decode_iterations == 16
    assert torch.equal(first.completion_BT, second.completion_BT)


def test_siblings_tell_in_the_first_batch() -> None:
    lengths = [2] * 6 + [9] * 6
    _, arrival = generate(engine("arrival", rollout_concurrency=3), lengths, group_size=6)
    _, longest = generate(engine("longest_first", rollout_concurrency=3), lengths, group_size=6)
    assert longest.decode_iterations <= arrival.decode_iterations


def test_the_order_changes_no_row() -> None:
    lengths = [3, 9, 1, 5, 12, 2, 2, 7]
    plain, _ = generate(engine("arrival"), lengths, group_size=2)
    for share in (False, True):
        for continuous in (False, True):
            made = engine("longest_first", rollout_concurrency=3, share_prefill=share, compact_finished=continuous)
            for _ in range(2):
                batch, _ = generate(made, lengths, group_size=2)
                assert torch.equal(batch.completion_BT, plain.completion_BT)
                assert torch.allclose(batch.logprobs_BT, plain.logprobs_BT, atol=1e-5)
