"""One side of a step on recorded batches, two configurations in turn: what a change of that side alone is worth.

::

    recorded batch --trainer--> log-prob passes and updates        (the rollout's tokens are there already)
                   --rollout--> the same prompts, each row to the length it had

Both arms live in one process and meet every batch one right after the other, in turns AB, BA, so that drift of the
machine falls on both alike. The surprise: the trainers learn nothing. Four batches trained on again and again at the
job's own rate could end in gradients that are not finite; at nearly zero the same operators run on weights that stay.
"""

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from torch import Tensor

from steptune.core.framework import SideReplay, SideTimes
from steptune.core.job import JobSpec
from steptune.core.knob import Settings
from steptune.core.phase import Role
from steptune.engine.events import Recorder
from steptune.engine.knobs import EngineKnobs
from steptune.engine.new_model import new_model
from steptune.engine.parity import load_batches
from steptune.engine.probe_batch import STILL_LR
from steptune.engine.produce import rollout_engine
from steptune.engine.threads import torch_threads
from steptune.engine.trainer import Trainer
from steptune.engine.types import ScoredBatch
from steptune.envs.vocabulary import vocabulary_of
from steptune.stats.sequential import is_settled

WARM_UP_PAIRS = 2
"""Pairs that do not count: allocator, kernel caches, the optimizer's first state."""

Arm = Callable[[ScoredBatch], float]
"""Runs one side of one batch and returns its seconds."""


def replay_side(
    job: JobSpec,
    wanted: SideReplay,
    start: Mapping[str, Tensor],
    folder: Path,
    clock: Callable[[], float] = time.perf_counter,
) -> SideTimes:
    """Time both arms of ``wanted`` from the weights ``start``; a trainer's own files go to ``folder``.

    Raises:
        TrialError: nothing was captured, or a gradient is not finite.
        JobError: settings that do not fit the job.
    """
    batches = load_batches(Path(wanted.batches_dir))
    side = _trainer if wanted.side is Role.TRAINER else _rollout
    with ExitStack() as stack:
        arms = [
            stack.enter_context(side(job, settings, start, folder, clock))
            for settings in (wanted.incumbent, wanted.candidate)
        ]
        return take_turns(arms, batches, wanted, clock)


def take_turns(
    arms: Sequence[Arm], batches: Sequence[ScoredBatch], wanted: SideReplay, clock: Callable[[], float]
) -> SideTimes:
    """Run pair after pair, AB, BA, on one batch after the other, until enough is known or the time is up."""
    stop_s = clock() + wanted.max_s
    pairs: list[tuple[float, float]] = []
    for index in range(WARM_UP_PAIRS + wanted.looks[-1]):
        if clock() >= stop_s or is_enough(pairs, wanted):
            break
        batch = batches[index % len(batches)]
        order = (0, 1) if index % 2 == 0 else (1, 0)
        seconds = {arm: arms[arm](batch) for arm in order}
        if index >= WARM_UP_PAIRS:
            pairs.append((seconds[0], seconds[1]))
    return SideTimes(incumbent_s=tuple(a for a, _ in pairs), candidate_s=tuple(b for _, b in pairs))


def is_enough(pairs: Sequence[tuple[float, float]], wanted: SideReplay) -> bool:
    """Return whether the pairs so far settle what ``wanted`` asks."""
    return is_settled(pairs, line=wanted.line, looks=wanted.looks, known=wanted.spread)


@contextmanager
def _trainer(
    job: JobSpec, settings: Settings, start: Mapping[str, Tensor], folder: Path, clock: Callable[[], float]
) -> Generator[Arm]:
    knobs, recorder = EngineKnobs.model_validate(dict(settings)), Recorder()
    models = [new_model(job) for _ in range(1 + (job.algorithm.kl_coef > 0))]
    for model in models:
        model.load_state_dict(dict(start))
    pad_id = vocabulary_of(job).pad_id
    still = job.algorithm.model_copy(update={"lr": STILL_LR})
    trainer = Trainer(models[0], still, knobs, pad_id, models[-1] if len(models) > 1 else None, folder=folder)

    def run(batch: ScoredBatch) -> float:
        with torch_threads(knobs.train_threads):
            begun_s = clock()
            trainer.update(trainer.prepare(batch, recorder), weights_version=0, recorder=recorder)
            taken_s = clock() - begun_s
        recorder.forget()
        return taken_s

    with closing(trainer):
        yield run


@contextmanager
def _rollout(
    job: JobSpec, settings: Settings, start: Mapping[str, Tensor], _folder: Path, clock: Callable[[], float]
) -> Generator[Arm]:
    knobs = EngineKnobs.model_validate({**settings, "handover": "copy"})  # an engine with weights of its own
    engine, algorithm = rollout_engine(job, knobs), job.algorithm

    def run(batch: ScoredBatch) -> float:
        engine.load(start, 0)
        with torch_threads(knobs.rollout_threads):
            begun_s = clock()
            engine.generate(
                batch.rollout.prompts,
                max_completion_len=algorithm.max_completion_len,
                temperature=algorithm.temperature,
                seed=0,
                forced_lengths_B=batch.rollout.lengths_B,
            )
            return clock() - begun_s

    yield run
