"""Faults put into the embedded engine's trainer: update parity finds them in replays of recorded batches."""

from collections.abc import Sequence
from functools import partial

import pytest
from parity_cases import Recorded, record
from rank_cases import InlineRank
from torch import Tensor

from steptune.core.job import AlgorithmSpec
from steptune.core.verdict import Judgement
from steptune.engine import gradients, inputs, parity
from steptune.engine.micro_batch import Run
from steptune.engine.parity import load_batches
from steptune.engine.plan import plan_batch
from steptune.engine.trainer import Trainer


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return record(tmp_path_factory.mktemp("recorded"))


def test_the_recorded_batches_are_such_that_a_fault_can_show(recorded: Recorded) -> None:
    algorithm = recorded.job.algorithm
    for batch in load_batches(recorded.folder / "batches"):
        lengths = batch.rollout.lengths_B.tolist()
        plan = plan_batch(
            batch.rollout.prompts.lengths_B.tolist(),
            lengths,
            layout="packed",
            token_budget=64,
            max_completion_len=algorithm.max_completion_len,
            num_updates=algorithm.num_updates,
            group_size=algorithm.group_size,
        )
        assert len(set(lengths)) > 6
        assert [len(update) >= 2 for update in plan.updates] == [True, True]
    assert min(recorded.plain.grad_norms) > algorithm.max_grad_norm
    assert with_algorithm(recorded, clip_low=0.9, clip_high=9.0) is Judgement.FAIL


def with_algorithm(recorded: Recorded, **fields: object) -> Judgement:
    algorithm = AlgorithmSpec.model_validate({**recorded.job.algorithm.model_dump(), **fields})
    return recorded.replayed(recorded.job.model_copy(update={"algorithm": algorithm})).judgement


def test_a_packing_leak_is_caught(recorded: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    attend_runs = inputs.attend_runs

    def one_document(runs: Sequence[Run], *args: object, **how: object) -> object:
        return attend_runs([Run(sum(run.width * run.num_rows for run in runs), 1)], *args, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(inputs, "attend_runs", one_document)
    verdict = recorded.replayed(layout="packed")
    assert verdict.judgement is Judgement.FAIL
    assert "probe gap" in verdict.because


@pytest.mark.parametrize("ranks", [1, 2])
def test_gradients_halved_by_a_normaliser_are_caught_by_norms_and_by_the_weights_themselves(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch, ranks: int
) -> None:
    weights = gradients.aggregation_weights
    monkeypatch.setattr(parity, "Trainer", partial(Trainer, start_rank=InlineRank))
    monkeypatch.setattr(gradients, "aggregation_weights", lambda *args, **how: weights(*args, **how) / 2)
    verdict = recorded.replayed(layout="packed", train_ranks=ranks)
    assert verdict.judgement is Judgement.FAIL
    assert "gradient norms differ by up to 0.5" in verdict.because


def test_one_token_that_is_left_out_of_an_update_is_caught(recorded: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = gradients.aggregation_weights

    def one_short(*args: object, **how: object) -> Tensor:
        weight_BT = weights(*args, **how)  # type: ignore[arg-type]
        row, token = weight_BT.nonzero()[-1].tolist()
        weight_BT[row, token] = 0
        return weight_BT

    monkeypatch.setattr(gradients, "aggregation_weights", one_short)
    assert recorded.replayed(layout="packed").judgement is Judgement.FAIL


@pytest.mark.parametrize(
    "fields",
    [{"temperature": 1.02}, {"loss_aggregation": "seq_mean_token_mean"}, {"max_grad_norm": 0.051}, {"lr": 1.01e-2}],
    ids=lambda fields: next(iter(fields)),
)
def test_settings_that_are_off_by_a_little_are_caught(recorded: Recorded, fields: dict[str, object]) -> None:
    assert with_algorithm(recorded, **fields) is Judgement.FAIL
