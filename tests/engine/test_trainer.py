import itertools

import pytest
import torch
from trainer_cases import flat_params, scored_batch, small_model, small_trainer

from steptune.core.errors import JobError, TrialError
from steptune.core.job import Correction, CorrectionKind, LossAggregation
from steptune.core.phase import Role
from steptune.engine.context import Context
from steptune.engine.events import Recorder
from steptune.engine.knobs import EngineKnobs
from steptune.engine.model import Transformer
from steptune.engine.trainer import Trainer, TrainStats
from steptune.engine.types import ScoredBatch

EQUAL = 1e-5
"""Relative distance of parameter *changes* within float32 rounding; a halved normaliser gives 0.5."""


def train(trainer: Trainer, batch: ScoredBatch | None = None, recorder: Recorder | None = None) -> TrainStats:
    """Run one batch through prepare and update."""
    recorder = recorder or Recorder()
    prepared = trainer.prepare(batch or scored_batch(), recorder)
    return trainer.update(prepared, weights_version=5, recorder=recorder)


def raw_gradient(knobs: EngineKnobs, reference: Transformer | None = None, **algorithm: object) -> torch.Tensor:
    """Return the parameter change of one plain SGD step: the gradient itself, no AdamW in between."""
    trainer = small_trainer(knobs=knobs, reference=reference, max_grad_norm=1e9, **algorithm)
    before = flat_params(trainer.model)
    trainer.optimizer = torch.optim.SGD(trainer.model.parameters(), lr=1.0)  # type: ignore[assignment]
    train(trainer)
    return flat_params(trainer.model) - before


def relative(a: torch.Tensor, b: torch.Tensor) -> float:
    return float((a - b).norm() / b.norm())


@pytest.mark.parametrize("how", list(LossAggregation))
@pytest.mark.parametrize("layout", ["padded", "sorted", "packed", "shared_prefix"])
def test_layout_and_micro_batch_do_not_change_the_gradient(layout: str, how: LossAggregation) -> None:
    reference = raw_gradient(EngineKnobs(layout="padded", micro_batch_tokens=100_000), loss_aggregation=how)
    assert reference.norm() > 1e-3
    for tokens in (1, 40, 100, 100_000):
        knobs = EngineKnobs.model_validate({"layout": layout, "micro_batch_tokens": tokens})
        assert relative(raw_gradient(knobs, loss_aggregation=how), reference) < EQUAL


def test_recompute_does_not_change_the_gradient() -> None:
    kept, again = (raw_gradient(EngineKnobs(layout="packed", recompute=flag)) for flag in (False, True))
    assert relative(again, kept) < EQUAL


@pytest.mark.parametrize("layout", ["padded", "sorted", "packed", "shared_prefix"])
def test_a_redundant_logprob_pass_does_not_change_the_gradient(layout: str) -> None:
    base = EngineKnobs.model_validate({"layout": layout, "micro_batch_tokens": 60})
    with_pass = base.model_copy(update={"logprob_batch_tokens": 33})
    assert relative(raw_gradient(with_pass), raw_gradient(base)) < EQUAL


def test_parameters_after_three_updates_agree_between_layouts() -> None:
    ends = list[torch.Tensor]()
    for layout, recompute in itertools.product(("padded", "sorted", "packed", "shared_prefix"), (False, True)):
        knobs = EngineKnobs.model_validate(
            {"layout": layout, "recompute": recompute, "micro_batch_tokens": 50, "logprob_batch_tokens": 50}
        )
        trainer = small_trainer(knobs=knobs, num_updates=3, lr=1e-3)
        start = flat_params(trainer.model)
        assert train(trainer).num_updates == 3
        ends.append(flat_params(trainer.model) - start)
    # AdamW's first steps divide a gradient by its own size: where it is nearly 0, rounding decides the sign.
    assert all(relative(end, ends[0]) < 1e-3 for end in ends)


def test_bf16_training_stays_close_and_keeps_float32_weights() -> None:
    reference = raw_gradient(EngineKnobs(layout="packed"))
    got = raw_gradient(EngineKnobs(layout="packed", train_dtype="bf16"))
    assert got.dtype is torch.float32
    assert 1e-5 < relative(got, reference) < 0.1


def test_logprobs_are_those_of_each_row_alone_at_the_sampling_temperature() -> None:
    batch = scored_batch().rollout
    trainer = small_trainer(knobs=EngineKnobs(layout="packed"), temperature=0.7)
    got_BT = trainer.logprobs(batch, batch_tokens=70)
    for row in range(batch.prompts.num_rows):
        prompt, length = int(batch.prompts.lengths_B[row]), int(batch.lengths_B[row])
        tokens = torch.cat([batch.prompts.tokens_BP[row, :prompt], batch.completion_BT[row, :length]])
        logits = plain_logits(trainer, tokens) / 0.7
        expected = logits.log_softmax(-1)[torch.arange(prompt - 1, prompt + length - 1), tokens[prompt:]]
        torch.testing.assert_close(got_BT[row, :length], expected, atol=1e-5, rtol=1e-5)
    assert got_BT[~batch.mask_BT].abs().sum() == 0


def test_logprobs_need_no_whole_groups() -> None:
    # the probe of a hand-over has 8 rows, whatever the job's groups are: with groups of 6 it died
    batch = scored_batch().rollout
    ours, whole = (small_trainer(group_size=size).logprobs(batch, batch_tokens=70) for size in (6, 4))
    torch.testing.assert_close(ours, whole)


def plain_logits(trainer: Trainer, tokens_T: torch.Tensor) -> torch.Tensor:
    """One row, attention written out with a triangular mask."""

    def attend(_layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for x in (k, v))
        score = torch.einsum("qhe,khe->hqk", q, k) / q.shape[-1] ** 0.5
        score = score.masked_fill(torch.ones(score.shape[1:]).triu(1).bool(), -torch.inf)
        return torch.einsum("hqk,khe->qhe", score.softmax(-1), v)

    with torch.no_grad():
        return trainer.model.logits(trainer.model.hidden(tokens_T, torch.arange(len(tokens_T)), Context(attend=attend)))


def test_the_first_forward_gives_the_gap_at_the_same_weights() -> None:
    batch = scored_batch()
    trainer = small_trainer(knobs=EngineKnobs(layout="packed", micro_batch_tokens=64))
    own_BT = trainer.logprobs(batch.rollout, 64)
    (fresh,) = train(trainer, with_logprobs(batch, own_BT)).gap_by_lag
    assert (fresh.lag, fresh.gap.num_tokens) == (0, int(batch.rollout.lengths_B.sum()))
    assert fresh.gap.max_abs < 1e-5
    assert train(trainer, with_logprobs(batch, own_BT)).gap_by_lag[0].gap.max_abs > 1e-3  # weights have moved


def with_logprobs(batch: ScoredBatch, logprobs_BT: torch.Tensor) -> ScoredBatch:
    rollout = type(batch.rollout)(
        prompts=batch.rollout.prompts,
        completion_BT=batch.rollout.completion_BT,
        lengths_B=batch.rollout.lengths_B,
        logprobs_BT=logprobs_BT,
        versions_BT=batch.rollout.versions_BT,
        finished_B=batch.rollout.finished_B,
        entropy=batch.rollout.entropy,
    )
    return ScoredBatch(
        rollout=rollout,
        raw_reward_B=batch.raw_reward_B,
        reward_B=batch.reward_B,
        advantage_B=batch.advantage_B,
        train_mask_B=batch.train_mask_B,
    )


def test_every_update_counts_for_the_lag_each_against_the_weights_it_began_with() -> None:
    batch = scored_batch(num_rows=16)
    trainer = small_trainer(knobs=EngineKnobs(logprob_batch_tokens=99), num_updates=2)
    stats = train(trainer, with_logprobs(batch, trainer.logprobs(batch.rollout, 99)))
    lengths = batch.rollout.lengths_B
    assert [(s.lag, s.gap.num_tokens) for s in stats.gap_by_lag] == [
        (0, int(lengths[:8].sum())),
        (1, int(lengths[8:].sum())),  # the first update has moved the weights
    ]
    same, moved = (s.gap.max_abs for s in stats.gap_by_lag)
    assert same < 1e-5 < 1e-3 < moved
    assert len(stats.grad_norms) == 2


def test_a_correction_uses_the_logprobs_the_rollout_recorded() -> None:
    plain = raw_gradient(EngineKnobs())
    for kind in ("tis", "mis", "band", "sequence_tis", "sequence_mis"):
        knobs = EngineKnobs.model_validate({"correction": kind})
        corrected = raw_gradient(knobs, correction=Correction(kind=kind, cap=1.5))
        assert relative(corrected, plain) > 0.05
    own = small_trainer().logprobs(scored_batch().rollout, 999)
    trainer = small_trainer(knobs=EngineKnobs(correction="tis"))
    before = flat_params(trainer.model)
    trainer.optimizer = torch.optim.SGD(trainer.model.parameters(), lr=1.0)  # type: ignore[assignment]
    trainer.algorithm = trainer.algorithm.model_copy(update={"max_grad_norm": 1e9})
    train(trainer, with_logprobs(scored_batch(), own))
    assert relative(flat_params(trainer.model) - before, plain) < EQUAL  # all weights are 1


def test_the_reference_pass_adds_a_kl_gradient_and_books_its_own_span() -> None:
    recorder = Recorder()
    reference = small_model(seed=8)
    kl = train(small_trainer(reference=reference, kl_coef=0.1), recorder=recorder)
    no_kl = train(small_trainer())
    assert kl.loss > no_kl.loss
    assert next(span.phase for span in recorder.spans) == "ref_logprob"
    assert all(p.grad is None for p in reference.parameters())


def test_every_second_of_an_update_is_booked_on_the_trainer() -> None:
    recorder = Recorder()
    stats = train(small_trainer(knobs=EngineKnobs(logprob_batch_tokens=99, micro_batch_tokens=64)), recorder=recorder)
    phases = [span.phase for span in recorder.spans]
    assert {span.role for span in recorder.spans} == {Role.TRAINER}
    assert phases[0] == "old_logprob"
    assert phases.count("train/forward") == phases.count("train/backward") == stats.num_micro_batches > 1
    assert phases.count("train/optimizer") == 1
    assert set(phases) == {"old_logprob", "train/plan", "train/forward", "train/backward", "train/optimizer"}


def test_the_plan_is_built_once_per_batch_and_its_tensors_once_per_micro_batch() -> None:
    trainer = small_trainer(knobs=EngineKnobs(layout="packed", micro_batch_tokens=64, recompute=True))
    stats = train(trainer)
    assert (trainer.gradients.num_plans_built, trainer.gradients.num_inputs_built) == (1, stats.num_micro_batches)


def test_several_updates_need_a_separate_logprob_pass() -> None:
    with pytest.raises(JobError, match="logprob_batch_tokens"):
        small_trainer(num_updates=2)
    trainer = small_trainer(knobs=EngineKnobs(logprob_batch_tokens=64), num_updates=2)
    with pytest.raises(JobError, match="logprob_batch_tokens"):
        trainer.configure(EngineKnobs())
    assert trainer.knobs.logprob_batch_tokens == 64


def test_a_lever_set_on_the_wrong_object_is_an_error() -> None:
    trainer = small_trainer()
    for name in ("offload", "knobs"):
        with pytest.raises(AttributeError):
            setattr(trainer, name, None)


@pytest.mark.parametrize("broken", [torch.nan, torch.inf])
def test_a_gradient_that_is_not_finite_is_refused_and_leaves_the_weights(broken: float) -> None:
    batch = scored_batch()
    trainer = small_trainer()
    train(trainer)
    before, moments = flat_params(trainer.model), trainer.state()["optimizer"]["state"]
    batch.advantage_B[3] = broken
    with pytest.raises(TrialError, match=r"not finite.* the loss was -?(nan|inf) already: look for NaN in rewards"):
        train(trainer, batch)
    assert torch.equal(flat_params(trainer.model), before)
    assert torch.equal(trainer.state()["optimizer"]["state"][0]["exp_avg"], moments[0]["exp_avg"])
    assert all(p.grad is None for p in trainer.model.parameters())


def test_weights_that_are_not_finite_are_told_from_a_batch_that_is_not() -> None:
    trainer = small_trainer()
    with torch.no_grad():
        trainer.model.norm.weight[3] = torch.nan
    with pytest.raises(TrialError, match=r"the weights were not finite before it, `norm\.weight` among 1"):
        train(trainer)


def test_one_broken_gradient_is_named_though_the_loss_was_finite() -> None:
    trainer = small_trainer()
    before = flat_params(trainer.model)
    weight = dict(trainer.model.named_parameters())["blocks.1.ffn.down.weight"]
    hook = weight.register_hook(lambda gradient: gradient * torch.inf)
    with pytest.raises(TrialError, match=r"`blocks\.1\.ffn\.down\.weight` is the first of 1 tensors, though the loss"):
        train(trainer)
    hook.remove()
    assert torch.equal(flat_params(trainer.model), before)
    train(trainer)


def test_a_correction_does_not_hide_logprobs_that_are_not_finite() -> None:
    batch = scored_batch()
    batch.rollout.logprobs_BT[4, 0] = torch.nan
    with pytest.raises(TrialError, match="not finite, so no correction"):
        train(small_trainer(knobs=EngineKnobs(correction="tis")), batch)
    padding = with_logprobs(
        scored_batch(), scored_batch().rollout.logprobs_BT.masked_fill(~batch.rollout.mask_BT, torch.nan)
    )
    train(small_trainer(knobs=EngineKnobs(correction="tis")), padding)


@pytest.mark.parametrize("kind", ["band", "sequence_tis", "sequence_mis"])
def test_a_correction_of_rows_does_not_depend_on_layout_or_micro_batch(kind: CorrectionKind) -> None:
    bounds = Correction(kind=kind, cap=1.5, floor=0.7)
    whole = raw_gradient(EngineKnobs(correction=kind, micro_batch_tokens=100_000), correction=bounds)
    for layout in ("packed", "shared_prefix"):
        knobs = EngineKnobs.model_validate({"correction": kind, "layout": layout, "micro_batch_tokens": 40})
        assert relative(raw_gradient(knobs, correction=bounds), whole) < EQUAL


def test_a_band_has_the_job_s_two_ends() -> None:
    def gradient(floor: float, cap: float) -> torch.Tensor:
        return raw_gradient(EngineKnobs(correction="band"), correction=Correction(kind="band", cap=cap, floor=floor))

    assert relative(gradient(0.7, 1.5), gradient(0.0, 1.5)) > 0.01
    assert relative(gradient(0.7, 1.5), gradient(0.7, 9.0)) > 0.01


def test_every_kl_form_is_another_gradient() -> None:
    forms = ("k1", "k2", "k3", "abs")
    found = [raw_gradient(EngineKnobs(), reference=small_model(seed=8), kl_coef=0.5, kl_form=form) for form in forms]
    assert all(relative(a, b) > 1e-3 for i, a in enumerate(found) for b in found[:i])


def test_zero_advantages_still_do_the_work() -> None:
    batch = scored_batch()
    batch.advantage_B.zero_()
    trainer = small_trainer()
    worked, idle = train(small_trainer()), train(trainer, batch)
    assert (idle.loss, idle.grad_norm) == (0, 0)
    assert (idle.num_micro_batches, idle.padded_tokens) == (worked.num_micro_batches, worked.padded_tokens)


def test_a_resumed_trainer_continues_exactly() -> None:
    straight, first = small_trainer(), small_trainer()
    for seed in range(4):
        train(straight, scored_batch(seed=seed))
    for seed in range(2):
        train(first, scored_batch(seed=seed))
    resumed, saved = small_trainer(), first.state()
    train(first, scored_batch(seed=9))  # what was saved must not follow the live trainer
    resumed.load_state(saved)
    for seed in range(2, 4):
        train(resumed, scored_batch(seed=seed))
    assert torch.equal(flat_params(resumed.model), flat_params(straight.model))


def test_training_raises_the_probability_of_rewarded_completions() -> None:
    batch = scored_batch()
    batch.advantage_B.fill_(1.0)
    trainer = small_trainer(lr=1e-3)
    before = trainer.logprobs(batch.rollout, 999).sum()
    for _ in range(5):
        train(trainer, batch)
    assert trainer.logprobs(batch.rollout, 999).sum() > before
