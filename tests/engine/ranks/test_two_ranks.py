"""Two ranks do what one does: the same loss, gradient, clipping and weights, up to the order of sums."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from rank_cases import InlineRank, lively_model, rank_trainer
from trainer_cases import flat_params, scored_batch

from steptune.core.errors import JobError, TrialError
from steptune.engine.events import Recorder
from steptune.engine.gradients import Gradients, Share
from steptune.engine.ranks.memory import share
from steptune.engine.ranks.wire import check_shares
from steptune.engine.trainer import Trainer, TrainStats
from steptune.engine.types import ScoredBatch

ROUNDING = 2e-5
"""Relative; float32 sums in another order, through a few layers."""

FAMILIES = ["dense", "moe", "hybrid"]


def train(trainer: Trainer, batches: list[ScoredBatch], recorder: Recorder | None = None) -> list[TrainStats]:
    recorder = recorder or Recorder(clock=iter(range(10**9)).__next__)
    return [trainer.update(trainer.prepare(b, recorder), weights_version=5, recorder=recorder) for b in batches]


def moved(trainer: Trainer, batches: list[ScoredBatch]) -> tuple[torch.Tensor, list[TrainStats]]:
    """Return how far the weights went, and the stats."""
    start = flat_params(trainer.model)
    stats = train(trainer, batches)
    trainer.close()
    return flat_params(trainer.model) - start, stats


def assert_equal_work(family: str, folder: Path, batches: list[ScoredBatch], **settings: object) -> None:
    """Compare one rank and two under plain SGD, which unlike AdamW shows a gradient of the wrong size."""
    (one, stats_1), (two, stats_2) = (
        moved(rank_trainer(family, ranks, folder, sgd_lr=0.05, **settings), batches) for ranks in (1, 2)
    )
    assert one.norm() > 1e-4
    assert float((one - two).norm() / one.norm()) < ROUNDING
    for a, b in zip(stats_1, stats_2, strict=True):
        assert b.loss == pytest.approx(a.loss, rel=1e-4, abs=1e-6)
        assert b.grad_norms == pytest.approx(a.grad_norms, rel=1e-4)
        assert b.active_tokens == a.active_tokens
        assert [lag.gap.k3 for lag in b.gap_by_lag] == pytest.approx([lag.gap.k3 for lag in a.gap_by_lag], rel=1e-3)


@pytest.mark.parametrize("how", ["token_mean", "seq_mean_token_mean", "seq_mean_token_sum_norm"])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_gradient_has_the_size_and_direction_of_one_ranks(family: str, how: str, tmp_path: Path) -> None:
    batches = [scored_batch(seed=seed) for seed in (0, 1)]
    settings = {"layout": "packed", "micro_batch_tokens": 60, "max_grad_norm": 1e9, "loss_aggregation": how}
    assert_equal_work(family, tmp_path, batches, **settings)


@pytest.mark.parametrize("layout", ["padded", "sorted", "packed", "shared_prefix"])
def test_every_layout_splits_into_several_micro_batches_per_rank(layout: str, tmp_path: Path) -> None:
    assert_equal_work("dense", tmp_path, [scored_batch()], layout=layout, micro_batch_tokens=40, max_grad_norm=1e9)


def test_clipping_is_by_the_norm_of_the_sum(tmp_path: Path) -> None:
    batches = [scored_batch(seed=seed) for seed in (0, 1)]
    assert_equal_work("dense", tmp_path, batches, layout="packed", max_grad_norm=1e-2)
    _, stats = moved(rank_trainer("dense", 2, tmp_path, max_grad_norm=1e-2), batches)
    assert min(norm for each in stats for norm in each.grad_norms) > 1e-2  # it was active


@pytest.mark.parametrize(
    "settings",
    [
        {"num_updates": 2, "logprob_batch_tokens": 50, "layout": "shared_prefix"},
        {"kl_coef": 0.1, "layout": "packed"},
        {"correction": "tis", "layout": "packed"},
        {"recompute": True, "layout": "sorted", "head_tile_tokens": 4},
    ],
    ids=["updates", "kl", "correction", "recompute"],
)
def test_passes_corrections_and_recomputation_are_shared_too(settings: dict[str, object], tmp_path: Path) -> None:
    assert_equal_work("dense", tmp_path, [scored_batch()], micro_batch_tokens=60, **settings)


def test_replayed_experts_go_with_their_rows(tmp_path: Path) -> None:
    batch = scored_batch()
    width = int((batch.rollout.prompts.lengths_B + batch.rollout.lengths_B).max())
    routes = torch.stack([torch.randperm(4, generator=torch.Generator().manual_seed(i))[:2] for i in range(32 * width)])
    rollout = replace(batch.rollout, routes_BLJk=routes.view(16, width, 2, 2).to(torch.int16))
    replayed = replace(batch, rollout=rollout)
    assert_equal_work("moe", tmp_path, [replayed], router_replay=True, layout="packed", micro_batch_tokens=60)


def test_adamw_after_several_steps_agrees(tmp_path: Path) -> None:
    batches = [scored_batch(seed=seed) for seed in range(4)]
    settings = {"layout": "packed", "micro_batch_tokens": 60}
    (one, _), (two, _) = (moved(rank_trainer("dense", ranks, tmp_path, **settings), batches) for ranks in (1, 2))
    # where a gradient is nearly 0, rounding decides the sign of AdamW's step
    assert float((one - two).norm() / one.norm()) < 1e-3


def test_a_rank_without_rows_adds_nothing(tmp_path: Path) -> None:
    # one group in the update, kept whole by the layout: rank 0 takes it
    batch = scored_batch(num_rows=4)
    assert_equal_work("dense", tmp_path, [batch], layout="shared_prefix", max_grad_norm=1e9)
    trainer = rank_trainer("dense", 2, tmp_path, layout="shared_prefix")
    recorder = Recorder()
    (stats,) = train(trainer, [batch], recorder)
    trainer.close()
    assert stats.num_micro_batches == 1
    # and its gradient of the step before is not there any more
    trainer = rank_trainer("dense", 2, tmp_path, layout="shared_prefix")
    train(trainer, [scored_batch(num_rows=8), batch])
    assert trainer.second is not None
    assert all(float(place.abs().max()) == 0 for place in trainer.second.place)
    trainer.close()


def test_a_rank_that_normalises_by_its_own_rows_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The classic fault: each rank divides by its own tokens, so the sum of gradients is twice too large."""
    trainer = rank_trainer("dense", 2, tmp_path)
    before = flat_params(trainer.model)
    lay_out = Gradients.lay_out

    def own_rows_only(self: Gradients, prepared: object) -> object:
        laid = lay_out(self, prepared)  # type: ignore[arg-type]
        own = tuple(tuple(sorted(row for m in micros for row in m.rows)) for micros in laid.plan.updates)
        return replace(laid, plan=replace(laid.plan, update_rows=own))  # type: ignore[arg-type]

    monkeypatch.setattr(Gradients, "lay_out", own_rows_only)
    with pytest.raises(TrialError, match="do not agree on the update, which was not applied"):
        train(trainer, [scored_batch()])
    assert torch.equal(flat_params(trainer.model), before)
    monkeypatch.undo()
    expected, _ = moved(rank_trainer("dense", 2, tmp_path / "fresh"), [scored_batch(seed=1)])
    after, _ = moved(trainer, [scored_batch(seed=1)])
    assert torch.equal(after, expected)  # nothing of the refused gradient is left


def test_tokens_trained_twice_or_never_are_refused() -> None:
    check_shares((Share(loss=0.0, num_tokens=4, tokens_of_update=6), Share(loss=0.0, num_tokens=2, tokens_of_update=6)))
    for own, other in ((4, 4), (2, 2)):
        shares = (
            Share(loss=0.0, num_tokens=own, tokens_of_update=6),
            Share(loss=0.0, num_tokens=other, tokens_of_update=6),
        )
        with pytest.raises(TrialError, match=f"{own} \\+ {other} tokens trained"):
            check_shares(shares)


def test_a_gradient_that_is_not_finite_on_the_second_rank_is_refused_and_training_can_go_on(tmp_path: Path) -> None:
    trainer = rank_trainer("dense", 2, tmp_path, layout="packed")
    batch = scored_batch()
    assert isinstance(trainer.second.worker, InlineRank)  # type: ignore[union-attr]
    laid = trainer.second.worker.rank.gradients.lay_out(trainer.prepare(batch, Recorder()))  # type: ignore[union-attr]
    row = laid.plan.updates[0][0].rows[0]
    advantage_B = batch.advantage_B.clone()
    advantage_B[row] = torch.nan
    before = flat_params(trainer.model)
    with pytest.raises(TrialError, match="gradient is not finite"):
        train(trainer, [replace(batch, advantage_B=advantage_B)])
    assert torch.equal(flat_params(trainer.model), before)
    train(trainer, [batch])
    assert not torch.equal(flat_params(trainer.model), before)
    trainer.close()


def test_an_order_given_up_does_not_answer_the_next_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = scored_batch()
    expected, _ = moved(rank_trainer("dense", 2, tmp_path), [batch])
    trainer = rank_trainer("dense", 2, tmp_path)
    start, accumulate = flat_params(trainer.model), trainer.gradients.accumulate

    def out_of_memory(*_: object) -> Share:
        raise MemoryError

    monkeypatch.setattr(trainer.gradients, "accumulate", out_of_memory)
    with pytest.raises(MemoryError):
        train(trainer, [scored_batch(seed=9)])
    monkeypatch.setattr(trainer.gradients, "accumulate", accumulate)
    train(trainer, [batch])
    trainer.close()
    assert torch.equal(flat_params(trainer.model) - start, expected)


def test_a_failure_of_the_second_rank_ends_the_first_between_two_micro_batches(tmp_path: Path) -> None:
    trainer = rank_trainer("dense", 2, tmp_path, layout="packed", micro_batch_tokens=20)
    whole = len(trainer.gradients.lay_out(trainer.prepare(scored_batch(), Recorder())).plan.micro_batches)
    assert whole > 3
    worker, before = trainer.second.worker, flat_params(trainer.model)  # type: ignore[union-attr]
    assert isinstance(worker, InlineRank)
    worker.fails_at_look = 3  # two micro-batches are computed
    with pytest.raises(TrialError, match="the trainer rank 1 failed: MemoryError: 12 GB"):
        train(trainer, [scored_batch()])
    assert trainer.gradients.num_inputs_built == 2
    assert torch.equal(flat_params(trainer.model), before)
    trainer.close()


@pytest.mark.parametrize("fails", [False, True])
def test_the_second_rank_is_killed_where_it_is_only_if_nobody_waits_for_its_answer(
    tmp_path: Path, fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = rank_trainer("dense", 2, tmp_path)
    worker = trainer.second.worker  # type: ignore[union-attr]
    train(trainer, [scored_batch()])
    if fails:
        monkeypatch.setattr(trainer.gradients, "accumulate", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            train(trainer, [scored_batch()])
    trainer.close()
    assert isinstance(worker, InlineRank)
    assert worker.was_killed == fails


def test_both_ranks_read_one_piece_of_memory_and_a_state_knows_nothing_of_ranks(tmp_path: Path) -> None:
    one, two = (rank_trainer("dense", ranks, tmp_path) for ranks in (1, 2))
    train(two, [scored_batch(seed=1)])
    one.load_state(two.state())
    two.load_state(one.state())
    other = two.second.worker.rank.model  # type: ignore[union-attr]
    for mine, theirs in zip(two.model.parameters(), other.parameters(), strict=True):
        assert mine.data_ptr() == theirs.data_ptr()
    (a, _), (b, _) = moved(one, [scored_batch()]), moved(two, [scored_batch()])
    assert float((a - b).norm() / a.norm()) < 1e-3


def test_busy_time_imbalance_and_the_sum_are_booked_by_rank(tmp_path: Path) -> None:
    trainer = rank_trainer("dense", 2, tmp_path)
    recorder = Recorder(rank=0, step=7)
    train(trainer, [scored_batch()], recorder)
    assert {"train/order", "train/rank_wait", "train/reduce"} < {span.phase for span in recorder.spans}
    assert {span.rank for span in recorder.spans} == {0}
    counts = {count.name: count.value for count in recorder.counts}
    assert counts["train_busy_s"] > 0
    assert 1 <= counts["train_imbalance"] <= 2
    trainer.close()
    lines = (tmp_path / "events.trainer-1.jsonl").read_text().splitlines()
    assert lines
    assert all('"rank": 1' in line and '"step": 7' in line for line in lines)
    assert any('"train_busy_s"' in line for line in lines)


def test_too_little_shared_memory_is_said_before_it_is_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        f_bavail, f_frsize = 1, 4096

    monkeypatch.setattr("steptune.engine.ranks.memory.os.statvfs", lambda _path: Full)
    with pytest.raises(JobError, match=r"need [\d,]+ bytes of shared memory, got 4,096 free"):
        rank_trainer("dense", 2, tmp_path)


def test_a_model_that_is_not_on_the_cpu_is_refused() -> None:
    with pytest.raises(JobError, match="a model on meta; allowed: a model on the CPU"):
        share(lively_model("dense").to("meta"), None)


def test_one_rank_after_two_is_one_process(tmp_path: Path) -> None:
    trainer = rank_trainer("dense", 2, tmp_path)
    trainer.configure(trainer.knobs.model_copy(update={"train_ranks": 1}))
    assert trainer.second is None
    (stats,) = train(trainer, [scored_batch()])
    assert stats.other_rank_memory_bytes is None
