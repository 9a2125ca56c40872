"""Recorded batches of small runs, and what update parity says of them when they are replayed otherwise.

Rows of every length, several micro-batches an update, two updates a batch, clipping of ratios and of gradients at work.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest
from seeded_cases import lively_start, reward_of_low_tokens, seeded_loop, small_job

from steptune.core.framework import ParityInput, ParityOutput
from steptune.core.job import JobSpec
from steptune.core.model import ModelSpec
from steptune.core.profile import SampledLengths
from steptune.core.verdict import Verdict
from steptune.engine.damping import Damping
from steptune.engine.knobs import EngineKnobs
from steptune.engine.parity import param_distance, replay
from steptune.engine.produce import Producer
from steptune.guard.update_parity import check_update_parity, probe_gap

LENGTHS = SampledLengths(prompt=(5,) * 16, completion=tuple(1 + 5 * i % 12 for i in range(16)), rollouts_per_step=16)
"""1, 6, 11, 4, 9, 2 ... tokens."""
BASELINE: dict[str, object] = {
    "train_threads": 1,
    "rollout_threads": 1,
    "micro_batch_tokens": 64,
    "logprob_batch_tokens": 64,
}


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """Batches of the baseline, and its replays."""

    job: JobSpec
    folder: Path
    plain: ParityOutput
    shuffled: Sequence[ParityOutput]
    number: "count[int]"
    damping: Damping

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
        return self.judge(run(job or self.job, self.folder, next(self.number), self.damping, **knobs))


def run(
    job: JobSpec, folder: Path, number: int, damping: Damping, seed: int | None = None, **knobs: object
) -> ParityOutput:
    settings = EngineKnobs.model_validate({**BASELINE, **knobs}).model_dump()
    wanted = ParityInput(settings=settings, batches_dir=str(folder / "batches"), shuffle_seed=seed)
    return replay(job, wanted, lively_start(job), folder / f"{number}.pt", damping)


def record(folder: Path, model: ModelSpec | None = None, *, num_batches: int = 3, **baseline: object) -> Recorded:
    """Run a job of a few steps, and replay its baseline plainly and shuffled; ``baseline`` differs from `BASELINE`."""
    job = small_job(lr=1e-2, num_updates=2, max_grad_norm=0.05, clip_low=0.05, clip_high=0.05)
    if model is not None:
        job = job.model_copy(update={"model": model})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Producer, "verify", reward_of_low_tokens)
        loop = seeded_loop(folder, job, forced=LENGTHS, capture_batches=num_batches, **BASELINE)
        for _ in range(num_batches):
            loop.step()
        loop.close()
    damping = Damping()
    plain, *shuffled = (
        run(job, folder, number, damping, seed, **baseline) for number, seed in enumerate((None, 1, 2, 3))
    )
    return Recorded(job=job, folder=folder, plain=plain, shuffled=shuffled, number=count(10), damping=damping)
