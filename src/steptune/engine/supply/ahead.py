"""Rollout and environment in worker processes that run ahead as far as the age of their groups allows.

Who waits for whom::

    trainer                                        rollout worker
    -------                                        --------------
    take a step's groups     <----- groups ------  decode; begin groups while the bound allows   (both busy)
    train -> weights v+1
    write weights v+1        ----> shared memory
    say where I am           ----- Standing ---->  newest weights (`ahead.rollout_side` says when)

Nobody waits in the steady state unless the other is slower: the trainer for groups, the worker for the bound.
Of several workers each is a replica with a stream of its own; which places it makes the trainer says (`ahead.deal`).
"""

from typing import final

import torch
from torch import Tensor

from steptune.core.phase import Role, SpanKind
from steptune.core.profile import GapStats
from steptune.engine.ahead.bound import age_bound
from steptune.engine.ahead.buffer import GroupBuffer
from steptune.engine.ahead.deal import Dealer
from steptune.engine.ahead.groups import Group, join_groups
from steptune.engine.ahead.messages import Made, Paused, Standing
from steptune.engine.ahead.wires import ProcessWires, Wires
from steptune.engine.ahead.worker_loop import make_groups
from steptune.engine.gap import gap_stats
from steptune.engine.patience import MIN_PATIENCE_S, SMALL_PARAMETERS
from steptune.engine.probe_rows import probe_rows
from steptune.engine.produce import Produced, group_prompts
from steptune.engine.quota.limit import limit_self
from steptune.engine.quota.split import split_of
from steptune.engine.replicas.start import start_replicas
from steptune.engine.routing import RULES, group_tokens
from steptune.engine.supply.source import SourceState, Supply
from steptune.engine.supply.state import LoopState
from steptune.engine.types import RolloutBatch
from steptune.engine.weights import WeightChannel, weight_channel
from steptune.engine.worker import WorkerProcess, WorkerSpec, worker_spec
from steptune.envs.vocabulary import vocabulary_of


@final
class Ahead:
    """Owns the buffer, and says who makes what; the workers own what is in the making."""

    def __init__(self, state: LoopState, wires: Wires | None = None, channel: WeightChannel | None = None) -> None:
        self.loop, spec = state, state.spec
        self.bound = age_bound(spec.job, spec.knobs)
        self.buffer: GroupBuffer[Group] = GroupBuffer(self.bound)
        self.num_replicas = spec.knobs.rollout_replicas
        self.dealer = Dealer(
            self.bound,
            num_replicas=self.num_replicas,
            rule=RULES[spec.knobs.rollout_routing],
            size_of=self._tokens_of if self.num_replicas > 1 else lambda _place: 1.0,
        )
        split = split_of(spec.job.devices.num_cores, spec.knobs)
        state.recorder.roles = (Role.TRAINER,)
        torch.set_num_threads(spec.knobs.train_threads)
        self.channel = channel or weight_channel(spec.knobs.handover, state.model, spec.folder)
        self.wires = wires or self._start()
        # after the workers' start: they limit themselves
        self.quota = None if split is None else limit_self(split.trainer)
        self.is_paused = True
        self.asked: dict[int, tuple[RolloutBatch, Tensor]] = {}
        """By version: probe rows and the trainer's log-probs of them, asked of the first worker."""
        self.heard: list[tuple[int, Made]] = []
        """Replica and message since the last step, for what making the groups cost."""

    def _start(self) -> ProcessWires:
        spec = self.loop.spec
        worker = worker_spec(spec.job, spec.knobs, spec.seed, spec.forced, spec.folder)

        def start(spec: WorkerSpec, channel: WeightChannel) -> WorkerProcess[Made | Paused]:
            return WorkerProcess[Made | Paused](spec, make_groups, (self.bound, channel))

        size = sum(tensor.numel() for tensor in self.loop.model.parameters()) / SMALL_PARAMETERS
        ends = start_replicas(worker, self.channel, start, first=0)
        return ProcessWires(ends, MIN_PATIENCE_S * max(1.0, size))

    def next(self) -> Supply:
        """Take the coming step's groups, waiting for them if need be."""
        with self.loop.recorder.span(Role.TRAINER, "rollout", SpanKind.EXPOSED_WAIT):
            self._fill()
            if self.is_paused:
                self._stand(is_paused=False)
        produced = self._joined(self.buffer.take())
        return self._supply(produced)

    def rehearse(self) -> Supply:
        """Return the coming step's groups and leave them. The worker stands still: it would stock up for nothing."""
        self._fill()
        self.settle()
        produced = self._joined(self.buffer.peek())
        return Supply(produced=produced, spans=[], remote_wall_s=0.0, probe_gap=None, peak_memory_bytes=None)

    def after_update(self, batch: RolloutBatch, *, is_kept: bool) -> None:
        """Publish the new weights; a rehearsal's are nobody's business."""
        if not is_kept:
            return
        loop = self.loop
        with loop.recorder.span(Role.TRAINER, "weight_sync"):
            self.channel.write(loop.model.state_dict(), loop.version)
            with loop.recorder.span(Role.TRAINER, "weight_sync/probe"):
                probe = probe_rows(batch)
                logprobs_BT = loop.trainer.logprobs(probe, loop.spec.knobs.micro_batch_tokens)
                self.asked[loop.version] = probe, logprobs_BT
            self._stand(is_paused=self.is_paused, probe=probe)

    def settle(self) -> None:
        """Ask for a pause and hear everything that was in flight."""
        if self.is_paused:
            return
        self._stand(is_paused=True)
        owing = set(range(self.num_replicas))
        while owing:
            replica, answer = self.wires.receive(min(owing))
            if isinstance(answer, Paused):
                owing.remove(replica)
            else:
                self._hear(replica, answer)

    def state(self) -> SourceState:
        """The buffer with its counts: nothing is in the making."""
        self.settle()
        buffer = self.buffer
        assert not buffer.early or self.num_replicas > 1, "a place was left out though nothing is in the making"
        return {
            "waiting": list(buffer.waiting),
            "early": dict(buffer.early),
            "num_groups": dict(buffer.num_groups),
            "num_tokens": dict(buffer.num_tokens),
        }

    def load_state(self, state: SourceState) -> None:
        """Take over a buffer and publish the trainer's weights of now."""
        buffer = self.buffer
        buffer.waiting.extend(state["waiting"])
        buffer.early.update(state["early"])
        buffer.num_groups, buffer.num_tokens = dict(state["num_groups"]), dict(state["num_tokens"])
        self.dealer.next_place = buffer.next_place
        self.channel.write(self.loop.model.state_dict(), self.loop.version)

    def close(self) -> None:
        """Give the cores back and stop the worker."""
        if self.quota is not None:
            self.quota.release()
        self.wires.close()

    def _fill(self) -> None:
        """Hear messages until a step's groups wait, none of them too old."""
        while True:
            while self.wires.has_answer():
                self._listen()
            num_dropped = self.buffer.drop_old(self.loop.version)
            if self.buffer.is_enough:
                return
            if self.is_paused or num_dropped:
                self._stand(is_paused=False)
            self._listen()

    def _listen(self) -> None:
        """Hear the next message; the replica that makes the next place in its turn is who owes one."""
        replica, answer = self.wires.receive(self.dealer.owner.get(self.buffer.next_place, 0))
        assert isinstance(answer, Made), "a pause was answered that nobody waits for"
        self._hear(replica, answer)

    def _hear(self, replica: int, made: Made) -> None:
        self.buffer.put(made.groups)
        self.dealer.hear(group.number for group in made.groups)
        self.heard.append((replica, made))

    def _stand(self, *, is_paused: bool, probe: RolloutBatch | None = None) -> None:
        self.is_paused = is_paused
        self.dealer.deal(self.buffer.num_gone, self.buffer.early)
        for replica in range(self.num_replicas):
            standing = Standing(
                version=self.loop.version,
                num_gone=self.buffer.num_gone,
                probe=probe if replica == 0 else None,
                is_paused=is_paused,
                places=self.dealer.take(replica),
            )
            self.wires.send(replica, standing)

    def _tokens_of(self, place: int) -> float:
        """Return the tokens that a place's group may need, as far as they are known before it is begun."""
        spec = self.loop.spec
        _, prompts = group_prompts(spec.job, spec.seed, vocabulary_of(spec.job), place, 0)
        limits = [spec.job.algorithm.max_completion_len] * prompts.num_rows
        return group_tokens(prompts.lengths_B.tolist(), limits, share_prefill=spec.knobs.share_prefill)

    def _joined(self, groups: list[Group]) -> Produced:
        traces = tuple(made.trace for _, made in self.heard)
        return join_groups(groups, self.loop.spec.job.algorithm.group_size, traces)

    def _supply(self, produced: Produced) -> Supply:
        batch, recorder = produced.batch, self.loop.recorder
        lag_mean = float((self.loop.version - batch.versions_BT[batch.mask_BT]).float().mean())
        recorder.count("lag", lag_mean)
        recorder.count("buffered_groups", len(self.buffer.waiting))
        peaks = dict[int, int]()
        for replica, made in self.heard:
            peaks[replica] = max(peaks.get(replica, 0), made.peak_memory_bytes or 0)
        heard, self.heard = [made for _, made in self.heard], []
        gaps = [self._probe_gap(made) for made in heard]
        return Supply(
            produced=produced,
            spans=[span for made in heard for span in made.spans],
            remote_wall_s=sum(made.wall_s for made in heard) / self.num_replicas,
            num_remote=self.num_replicas,
            probe_gap=next((gap for gap in reversed(gaps) if gap is not None), None),
            peak_memory_bytes=sum(peaks.values()) or None,
            queue=self.buffer.stats(lag_mean),
            arrivals=tuple(arrival for made in heard for arrival in made.arrivals),
        )

    def _probe_gap(self, made: Made) -> GapStats | None:
        if made.probe_version is None or made.probe_logprobs_BT is None:
            return None
        rows, trainer_logprobs_BT = self.asked[made.probe_version]
        self.asked = {version: asked for version, asked in self.asked.items() if version > made.probe_version}
        return gap_stats(trainer_logprobs_BT, made.probe_logprobs_BT, rows.mask_BT)
