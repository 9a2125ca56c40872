"""Faults put into the embedded engine's trainer: update parity finds them in replays of recorded batches.

The batches have rows of every length, several micro-batches an update, two updates each, and clipping of ratios and of
gradients at work; healthy levers must pass on them, two ranks included.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path

import pytest
from rank_cases import InlineRank
from seeded_cases import lively_start, reward_of_low_tokens, seeded_loop, small_job

from steptune.core.framework import ParityInput, ParityOutput
from steptune.core.job import JobSpec
from steptune.core.profile import SampledLengths
from steptune.core.verdict import Judgement, Verdict
from steptune.engine import gradients, inputs, parity
from steptune.engine.knobs import EngineKnobs
from steptune.engine.micro_batch import Run
from steptune.engine.parity import load_batches, param_distance, replay
from steptune.engine.plan import plan_batch
from steptune.engine.produce import Producer
from steptune.engine.trainer import Trainer
from steptune.guard.update_parity import check_update_parity, probe_gap

NUM_BATCHES = 3
LENGTHS = SampledLengths(prompt=(5,) * 16, completion=tuple(1 + 5 * i % 12 for i in range(16)), rollouts_per_step=16)
"""1, 6, 11, 4, 9, 2 ... tokens."""
BASELINE = {"train_threads": 1, "rollout_threads": 1, "micro_batch_tokens": 64, "logprob_batch_tokens": 64}


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """Batches of the baseline, and its replays."""

    job: JobSpec
    folder: Path
    plain: ParityOutput
    shuffled: Sequence[ParityOutput]
    number: "count[int]"

    def judge(self, ours: ParityOutput) -> Verdict:
        return check_update_parity(
            distance=param_distance(self.plain, ours),
            shuffled_band=[param_distance(self.plain, output) for output in self.shuffled],
            probe_gap=probe_gap(ours.probe_logprobs, self.plain.probe_logprobs),
            probe_band=[probe_gap(output.probe_logprobs, self.plain.probe_logprobs) for output in self.shuffled],
            candidate_grad_norms=ours.grad_norms,
            baseline_grad_norms=self.plain.grad_norms,
        )

    def replayed(self, job: JobSpec | None = None, **knobs: object) -> Verdict:
        return self.judge(run(job or self.job, self.folder, next(self.number), **knobs))


def run(job: JobSpec, folder: Path, number: int, seed: int | None = None, **knobs: object) -> ParityOutput:
    settings = EngineKnobs.model_validate({**BASELINE, **knobs}).model_dump()
    wanted = ParityInput(settings=settings, batches_dir=str(folder / "batches"), shuffle_seed=seed)
    return replay(job, wanted, lively_start(job), folder / f"{number}.pt")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    folder = tmp_path_factory.mktemp("recorded")
    job = small_job(lr=1e-2, num_updates=2, max_grad_norm=0.05, clip_low=0.05, clip_high=0.05)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Producer, "verify", reward_of_low_tokens)
        loop = seeded_loop(folder, job, forced=LENGTHS, capture_batches=NUM_BATCHES, **BASELINE)
        for _ in range(NUM_BATCHES):
            loop.step()
        loop.close()
    plain, *shuffled = (run(job, folder, number, seed) for number, seed in enumerate((None, 1, 2, 3)))
    return Recorded(job=job, folder=folder, plain=plain, shuffled=shuffled, number=count(10))


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
    free = algorithm.model_copy(update={"clip_low": 0.9, "clip_high": 9.0})
    assert recorded.replayed(recorded.job.model_copy(update={"algorithm": free})).judgement is Judgement.FAIL


@pytest.mark.parametrize(
    "knobs",
    [
        {"layout": "sorted"},
        {"layout": "packed", "recompute": True},
        {"layout": "shared_prefix", "head_tile_tokens": 8},
        {"layout": "packed", "micro_batch_tokens": 400},
        {"layout": "packed", "train_ranks": 2},
    ],
    ids=lambda knobs: "-".join(map(str, knobs.values())),
)
def test_levers_that_change_nothing_stay_inside_the_band(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch, knobs: dict[str, object]
) -> None:
    monkeypatch.setattr(parity, "Trainer", partial(Trainer, start_rank=InlineRank))
    verdict = recorded.replayed(**knobs)
    assert verdict.judgement is Judgement.PASS, verdict.because


def test_a_packing_leak_is_caught(recorded: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    attend_runs = inputs.attend_runs

    def one_document(runs: Sequence[Run], *args: object, **how: object) -> object:
        return attend_runs([Run(sum(run.width * run.num_rows for run in runs), 1)], *args, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(inputs, "attend_runs", one_document)
    verdict = recorded.replayed(layout="packed")
    assert verdict.judgement is Judgement.FAIL
    assert "probe gap" in verdict.because


@pytest.mark.parametrize("ranks", [1, 2])
def test_gradients_halved_by_a_normaliser_are_caught(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch, ranks: int
) -> None:
    weights = gradients.aggregation_weights
    monkeypatch.setattr(parity, "Trainer", partial(Trainer, start_rank=InlineRank))
    monkeypatch.setattr(gradients, "aggregation_weights", lambda *args, **how: weights(*args, **how) / 2)
    verdict = recorded.replayed(layout="packed", train_ranks=ranks)
    assert verdict.judgement is Judgement.FAIL
    assert "gradient norms differ by up to 0.5" in verdict.because
