"""The training loop: rollout, reward, advantage, update, hand-over, and one Observation per step.

Synchronous::

    hand over v -> generate k -> verify -> advantage -> (old log-probs) -> update -> v+1

One-step-off overlaps `generate k+1` (weights v, other process) with `update on k` (see `remote`): data is
exactly one update old from the second step on. Asynchronous: the other process runs ahead as far as the bound on
the age allows (see `ahead`).
"""

import copy
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import final

from torch import Tensor

from steptune.core.phase import Role
from steptune.core.profile import SampledLengths
from steptune.core.trial import Observation
from steptune.engine.checkpoint_file import newest_whole, write_checkpoint
from steptune.engine.events import Recorder, open_events
from steptune.engine.model import Transformer
from steptune.engine.observe import observation
from steptune.engine.parity import save_batch
from steptune.engine.process import peak_memory_bytes
from steptune.engine.saved_run import pack, unpack
from steptune.engine.scoring import score
from steptune.engine.supply.ahead import Ahead
from steptune.engine.supply.carrying import Carrying
from steptune.engine.supply.in_process import InProcess
from steptune.engine.supply.one_step_off import OneStepOff
from steptune.engine.supply.source import Source, Supply
from steptune.engine.supply.state import LoopSpec, LoopState, check_schedule
from steptune.engine.trainer import Trainer, TrainStats
from steptune.engine.types import ScoredBatch
from steptune.envs.vocabulary import vocabulary_of

__all__ = ["SOURCES", "Loop", "LoopSpec"]

SOURCES: dict[str, Callable[[LoopState], Source]] = {"sync": InProcess, "one_step_off": OneStepOff, "async": Ahead}
"""Where rollouts come from under each `EngineKnobs.schedule`, unless `partial_rollout` lets rows go on (`Carrying`)."""

SAVED = "state"
"""Folder of a run's states, inside the run's. `checkpoints` beside it holds models for others to load."""


def source_of(spec: LoopSpec) -> Callable[[LoopState], Source]:
    """Return where the rollouts of this run come from."""
    if spec.knobs.rollout_engine == "embedded":
        return SOURCES[spec.knobs.schedule] if spec.knobs.partial_rollout is None else Carrying
    from steptune.engine.supply.foreign import Foreign  # needs `safetensors`, which training does not

    return Foreign


@final
class Loop:
    """Runs steps one by one."""

    def __init__(
        self,
        spec: LoopSpec,
        model: Transformer,
        start: Mapping[str, Tensor],
        make_source: Callable[[LoopState], Source] | None = None,
    ) -> None:
        """Load ``start`` into ``model``. ``make_source`` None takes the schedule's own.

        Raises:
            JobError: the schedule cannot be (see `check_schedule`), or the knobs do not fit the algorithm.
        """
        check_schedule(spec)
        model.load_state_dict(dict(start))
        reference = copy.deepcopy(model).requires_grad_(False) if spec.job.algorithm.kl_coef > 0 else None
        self.state = LoopState(
            spec=spec,
            model=model,
            trainer=Trainer(
                model, spec.job.algorithm, spec.knobs, vocabulary_of(spec.job).pad_id, reference, folder=spec.folder
            ),
            recorder=Recorder(
                rank=0 if spec.knobs.train_ranks > 1 else None, file=open_events(spec.folder / "events.jsonl")
            ),
        )
        self.prompt_lengths: list[int] = []
        self.completion_lengths: list[int] = []
        with ExitStack() as undo:  # a loop that does not come about has nobody to close it
            undo.callback(self.state.recorder.close)
            undo.callback(self.state.trainer.close)
            self.source = (make_source or source_of(spec))(self.state)
            undo.pop_all()

    @property
    def model(self) -> Transformer:
        """The trained model."""
        return self.state.model

    @property
    def step_index(self) -> int:
        """Steps done."""
        return self.state.step_index

    def step(self) -> Observation:
        """Run one step and return what happened.

        Raises:
            TrialError: a gradient is not finite (that update is not applied), or the worker died.
            StoreError: a checkpoint could not be written.
        """
        clock = self.state.recorder.clock
        self.state.recorder.step = self.step_index
        start_s = clock()
        supply = self.source.next()
        scored, stats = self._work(supply, is_kept=True)
        self.prompt_lengths += supply.produced.batch.prompts.lengths_B.tolist()
        self.completion_lengths += supply.produced.batch.lengths_B.tolist()
        every = self.state.spec.checkpoint_every
        if every is not None and (self.step_index + 1) % every == 0:
            with self.state.recorder.span(Role.TRAINER, "checkpoint"):
                self._save()
        seconds = clock() - start_s
        return self._observe(supply, scored, stats, seconds)

    def rehearse(self, seconds: float) -> None:
        """Repeat the coming step until ``seconds`` have passed, at least once, and take back what it learnt.

        Nothing of it is observed, and its spans are lost. One-step-off: the batch in flight afterwards is that of
        the coming step, sampled by the weights before it. Asynchronous: the worker stands still meanwhile.
        """
        state = self.state
        clock, version, trained = state.recorder.clock, state.version, state.trainer.state()
        stop_s = clock() + seconds
        while True:
            self._work(self.source.rehearse(), is_kept=False)
            state.trainer.load_state(trained)
            state.version = version
            state.recorder.forget()
            if clock() >= stop_s:
                return

    def _work(self, supply: Supply, *, is_kept: bool) -> tuple[ScoredBatch, TrainStats]:
        """Train on one step's rollouts."""
        state, recorder = self.state, self.state.recorder
        with recorder.span(Role.TRAINER, "advantage"):
            scored = score(supply.produced, state.spec.job.algorithm)
        if state.step_index < state.spec.capture_batches:
            with recorder.span(Role.TRAINER, "checkpoint"):
                save_batch(state.spec.folder / "batches", state.step_index, scored)
        prepared = state.trainer.prepare(scored, recorder)
        with recorder.span(Role.TRAINER, "train"):
            stats = state.trainer.update(prepared, weights_version=state.version, recorder=recorder)
        state.version += stats.num_updates
        self.source.after_update(supply.produced.batch, is_kept=is_kept)
        return scored, stats

    def resume(self) -> tuple[str, ...]:
        """Go on from the folder's newest whole checkpoint, or from the start; return what was wrong with newer ones.

        Raises:
            StoreError: the checkpoint is of another run.
        """
        found = newest_whole(self.state.spec.folder / SAVED)
        if found.path is not None:
            lengths = unpack(found.payload, self.state, self.source)
            self.prompt_lengths, self.completion_lengths = list(lengths[0]), list(lengths[1])
        self.state.recorder.count("resumed_at_step", self.step_index)
        return found.problems

    def _save(self) -> None:
        lengths = self.prompt_lengths, self.completion_lengths
        payload = pack(self.state, self.source, steps_done=self.step_index + 1, lengths=lengths)
        write_checkpoint(self.state.spec.folder / SAVED, self.step_index + 1, payload)

    def settle(self) -> None:
        """Let work in flight finish, so that a paused run uses no core."""
        self.source.settle()

    def close(self) -> None:
        """Stop every other process and close the events, each also where closing another fails."""
        with ExitStack() as stack:
            stack.callback(self.state.recorder.close)
            stack.callback(self.state.trainer.close)
            stack.callback(self.source.close)

    def lengths(self) -> SampledLengths:
        """Lengths of every rollout trained on so far."""
        return SampledLengths(
            prompt=tuple(self.prompt_lengths),
            completion=tuple(self.completion_lengths),
            rollouts_per_step=self.state.spec.job.algorithm.rollouts_per_step,
        )

    def _observe(self, supply: Supply, scored: ScoredBatch, stats: TrainStats, seconds: float) -> Observation:
        state = self.state
        walls: dict[str, float] = dict.fromkeys(state.recorder.roles, seconds)
        if supply.remote_wall_s is not None:
            walls |= {Role.ROLLOUT: supply.remote_wall_s, Role.ENVIRONMENT: supply.remote_wall_s}
        made = observation(
            step=state.step_index,
            seconds=seconds,
            wall_by_role_s=walls,
            spans=state.recorder.take(),
            supply=supply,
            scored=scored,
            stats=stats,
            version=state.version,
            is_cache_mixed=state.spec.knobs.inflight_update,
            memory_bytes=sum(
                peak or 0 for peak in (peak_memory_bytes(), supply.peak_memory_bytes, stats.other_rank_memory_bytes)
            )
            or None,
        )
        state.step_index += 1
        return made
