"""Steps of a virtual cluster carried out for real: each replica's rollout, each rank's training, one after the other.

::

    one core      | replica 0 | replica 1 | ... | micro-batches of rank 0 | of rank 1 | ... | optimizer |
    virtual clock | all replicas at once, the slowest counts | all ranks at once, likewise | ...

The work is the engine's own: real samples, rewards, gradients and updates, each piece's CPU seconds charged to its
device. A rank computes its micro-batches of the one update, whose gradients add up as an all-reduce would. So learning
is that of a single process, whatever the cluster (a test holds the losses against the loop's). Schedules in which
*time* decides what is trained on (`async`, tools, memory limits) need the event core (`cluster`), where the same pieces
are prices.
"""

import time
from typing import Literal, final

from steptune.core.errors import JobError, explain
from steptune.core.estimate import Source
from steptune.core.job import JobSpec
from steptune.core.profile import SampledLengths
from steptune.core.records import Record
from steptune.engine.events import Clock, Recorder
from steptune.engine.knobs import EngineKnobs
from steptune.engine.model import Transformer
from steptune.engine.plan import plan_batch
from steptune.engine.produce import Produced
from steptune.engine.scoring import score
from steptune.engine.trainer import Trainer
from steptune.engine.types import RolloutBatch
from steptune.engine.virtual.ranks import spread
from steptune.engine.virtual.replica_pool import ReplicaPool
from steptune.engine.virtual.spec import ClusterSpec, slowdown_of
from steptune.envs.vocabulary import vocabulary_of

PARTS = ("train/plan", "train/forward", "train/backward", "train/optimizer")
"""Spans of an update."""


class ExecutedStep(Record):
    """One step: real work, virtual time.

    Example: 4 replicas of 0.11 to 0.14 s, 4 ranks of 0.08 s: ``virtual_s = 0.14 + 0.08 + ...`` when synchronous.
    """

    source: Literal[Source.VIRTUAL] = Source.VIRTUAL
    step: int
    virtual_s: float
    replica_cpu_s: tuple[float, ...]
    """Rollout of the batch trained on (sync) or of the next one (one_step_off), a slow device's factor included."""
    rank_cpu_s: tuple[float, ...]
    optimizer_cpu_s: float
    lag: int
    loss: float
    reward_mean: float
    prompt_lengths: tuple[int, ...]
    completion_lengths: tuple[int, ...]


@final
class ExecutedCluster:
    """Runs steps one by one; `sync` and `one_step_off` only. Layout and micro-batches are the knobs' own."""

    def __init__(
        self,
        spec: ClusterSpec,
        job: JobSpec,
        knobs: EngineKnobs,
        model: Transformer,
        *,
        seed: int,
        forced: SampledLengths | None = None,
        clock: Clock = time.process_time,
    ) -> None:
        """Take over ``model`` as the trainer's.

        Raises:
            JobError: the cluster cannot run, or needs the event core.
        """
        spec.check(1)
        _check(spec, job)
        self.spec, self.knobs, self.model, self.clock = spec, knobs, model, clock
        self.algorithm = job.algorithm
        self.pool = ReplicaPool(spec, job, knobs, seed=seed, forced=forced, clock=clock)
        self.trainer = Trainer(model, job.algorithm, knobs, vocabulary_of(job).pad_id)
        self.version = self.step_index = 0
        self.ahead = self.pool.rollout(model, 0, 0) if spec.schedule == "one_step_off" else None

    def step(self) -> ExecutedStep:
        """Run one step: on one core, device after device."""
        spec = self.spec
        is_sync = self.ahead is None
        made = self.pool.rollout(self.model, self.version, self.step_index + (0 if is_sync else 1))
        used = made if self.ahead is None else self.ahead
        self.ahead = None if is_sync else made
        lag = self.version - used.version
        loss, rank_s, optimizer_s = self._train(used.produced)
        rollout_s, train_s = max(made.replica_s), max(rank_s) + spec.allreduce_s + optimizer_s
        batch = used.produced.batch
        done = ExecutedStep(
            step=self.step_index,
            virtual_s=(rollout_s + train_s if is_sync else max(rollout_s, train_s)) + spec.sync_s,
            replica_cpu_s=made.replica_s,
            rank_cpu_s=rank_s,
            optimizer_cpu_s=optimizer_s,
            lag=lag,
            loss=loss,
            reward_mean=float(used.produced.raw_reward_B.mean()),
            prompt_lengths=tuple(batch.prompts.lengths_B.tolist()),
            completion_lengths=tuple(batch.lengths_B.tolist()),
        )
        self.step_index += 1
        return done

    def _train(self, produced: Produced) -> tuple[float, tuple[float, ...], float]:
        """Do the update; return the loss, each rank's seconds, and the optimizer's."""
        recorder, trainer = Recorder(clock=self.clock), self.trainer
        prepared = trainer.prepare(score(produced, self.algorithm), recorder)
        stats = trainer.update(prepared, weights_version=self.version, recorder=recorder)
        self.version += stats.num_updates
        plan_s, forward_s, backward_s, optimizer_s = (
            [span.seconds for span in recorder.spans if span.phase == part] for part in PARTS
        )
        # the whole update's plan is the first span; then there is one of each part per micro-batch
        micro_s = [sum(parts) for parts in zip(plan_s[1:], forward_s, backward_s, strict=True)]
        shares = spread(self._positions(produced.batch), self.spec.num_trainers)
        rank_s = tuple(
            (plan_s[0] / len(shares) + sum(micro_s[i] for i in share)) * slowdown_of(self.spec.trainer_slowdown, rank)
            for rank, share in enumerate(shares)
        )
        return stats.loss, rank_s, sum(optimizer_s)

    def _positions(self, batch: RolloutBatch) -> list[int]:
        """Return the positions of each micro-batch: what is known of it before it is computed."""
        plan = plan_batch(
            batch.prompts.lengths_B.tolist(),
            batch.lengths_B.tolist(),
            layout=self.knobs.layout,
            token_budget=self.knobs.micro_batch_tokens,
            max_completion_len=self.algorithm.max_completion_len,
            group_size=self.algorithm.group_size,
        )
        return [micro.num_positions for micro in plan.micro_batches]


def _check(spec: ClusterSpec, job: JobSpec) -> None:
    algorithm = job.algorithm
    plain = spec.schedule != "async" and spec.kv_tokens is None and spec.max_rows is None
    if plain and algorithm.num_updates == 1 and not algorithm.dynamic_sampling and algorithm.kl_coef == 0:
        return
    raise JobError(
        explain(
            "only plain synchronous and one-step-off clusters are executed",
            got=f"schedule {spec.schedule}, max_rows {spec.max_rows}, kv_tokens {spec.kv_tokens}",
            allowed="no limits, one update a step, no dynamic sampling, no KL term",
            hint="use `simulate` with measured costs",
        )
    )
