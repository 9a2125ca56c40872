"""Rollout and environment in a worker process that runs ahead as far as the age of its groups allows.

Who waits for whom::

    trainer                                        rollout worker
    -------                                        --------------
    take a step's groups     <----- groups ------  decode; begin groups while the bound allows   (both busy)
    train -> weights v+1
    write weights v+1        ----> shared memory
    say where I am           ----- Standing ---->  newest weights (`ahead.rollout_side` says when)

Nobody waits in the steady state unless the other is slower: the trainer for groups, the worker for the bound.
"""

from typing import Protocol, final

import torch
from torch import Tensor

from steptune.core.phase import Role, SpanKind
from steptune.core.profile import GapStats
from steptune.engine.ahead.bound import age_bound
from steptune.engine.ahead.buffer import GroupBuffer
from steptune.engine.ahead.groups import Group, join_groups
from steptune.engine.ahead.messages import Made, Paused, Standing
from steptune.engine.ahead.worker_loop import make_groups
from steptune.engine.gap import gap_stats
from steptune.engine.probe_rows import probe_rows
from steptune.engine.produce import Produced
from steptune.engine.quota.limit import limit_self
from steptune.engine.quota.split import split_of
from steptune.engine.supply.source import SourceState, Supply
from steptune.engine.supply.state import LoopState
from steptune.engine.types import RolloutBatch
from steptune.engine.weights import WeightChannel, weight_channel
from steptune.engine.worker import WorkerProcess, worker_spec


class Wire(Protocol):
    """The trainer's end of the wire: `WorkerProcess`, or a worker in a test's own process."""

    def send(self, message: object) -> None:
        """Say something; never waits for the worker."""
        ...

    def has_answer(self) -> bool:
        """Return whether `receive` would return at once."""
        ...

    def receive(self) -> Made | Paused:
        """Wait for the worker's next message. Raises TrialError when it died."""
        ...

    def close(self) -> None:
        """Stop the worker."""
        ...


@final
class Ahead:
    """Owns the buffer; the worker owns what is in the making."""

    def __init__(self, state: LoopState, wire: Wire | None = None, channel: WeightChannel | None = None) -> None:
        self.loop, spec = state, state.spec
        self.bound = age_bound(spec.job, spec.knobs)
        self.buffer: GroupBuffer[Group] = GroupBuffer(self.bound)
        split = split_of(spec.job.devices.num_cores, spec.knobs)
        state.recorder.roles = (Role.TRAINER,)
        torch.set_num_threads(spec.knobs.train_threads)
        self.channel = channel or weight_channel(spec.knobs.handover, state.model, spec.folder)
        self.wire = wire or WorkerProcess[Made | Paused](
            worker_spec(spec.job, spec.knobs, spec.seed, spec.forced, spec.folder),
            make_groups,
            (self.bound, self.channel),
        )
        # after the worker's start: it limits itself
        self.quota = None if split is None else limit_self(split.trainer)
        self.is_paused = True
        self.asked: dict[int, tuple[RolloutBatch, Tensor]] = {}
        """By version: probe rows and the trainer's log-probs of them, asked of the worker."""
        self.heard: list[Made] = []
        """Messages since the last step, for what making the groups cost."""

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
        while not isinstance(answer := self.wire.receive(), Paused):
            self._hear(answer)

    def state(self) -> SourceState:
        """The buffer with its counts: nothing is in the making."""
        self.settle()
        buffer = self.buffer
        assert not buffer.early, "a place before a complete group is empty though nothing is in the making"
        return {
            "waiting": list(buffer.waiting),
            "num_groups": dict(buffer.num_groups),
            "num_tokens": dict(buffer.num_tokens),
        }

    def load_state(self, state: SourceState) -> None:
        """Take over a buffer and publish the trainer's weights of now."""
        buffer = self.buffer
        buffer.waiting.extend(state["waiting"])
        buffer.num_groups, buffer.num_tokens = dict(state["num_groups"]), dict(state["num_tokens"])
        self.channel.write(self.loop.model.state_dict(), self.loop.version)

    def close(self) -> None:
        """Give the cores back and stop the worker."""
        if self.quota is not None:
            self.quota.release()
        self.wire.close()

    def _fill(self) -> None:
        """Hear messages until a step's groups wait, none of them too old."""
        while True:
            while self.wire.has_answer():
                self._hear(self.wire.receive())
            num_dropped = self.buffer.drop_old(self.loop.version)
            if self.buffer.is_enough:
                return
            if self.is_paused or num_dropped:
                self._stand(is_paused=False)
            self._hear(self.wire.receive())

    def _hear(self, answer: Made | Paused) -> None:
        assert isinstance(answer, Made), "a pause was answered that nobody waits for"
        self.buffer.put(answer.groups)
        self.heard.append(answer)

    def _stand(self, *, is_paused: bool, probe: RolloutBatch | None = None) -> None:
        self.is_paused = is_paused
        self.wire.send(
            Standing(
                version=self.loop.version,
                num_gone=self.buffer.num_gone,
                probe=probe,
                is_paused=is_paused,
                first_place=self.buffer.next_place,
            )
        )

    def _joined(self, groups: list[Group]) -> Produced:
        traces = tuple(made.trace for made in self.heard)
        return join_groups(groups, self.loop.spec.job.algorithm.group_size, traces)

    def _supply(self, produced: Produced) -> Supply:
        batch, recorder = produced.batch, self.loop.recorder
        lag_mean = float((self.loop.version - batch.versions_BT[batch.mask_BT]).float().mean())
        recorder.count("lag", lag_mean)
        recorder.count("buffered_groups", len(self.buffer.waiting))
        heard, self.heard = self.heard, []
        gaps = [self._probe_gap(made) for made in heard]
        return Supply(
            produced=produced,
            spans=[span for made in heard for span in made.spans],
            remote_wall_s=sum(made.wall_s for made in heard),
            probe_gap=next((gap for gap in reversed(gaps) if gap is not None), None),
            peak_memory_bytes=max((made.peak_memory_bytes or 0 for made in heard), default=0) or None,
            queue=self.buffer.stats(lag_mean),
            arrivals=tuple(arrival for made in heard for arrival in made.arrivals),
        )

    def _probe_gap(self, made: Made) -> GapStats | None:
        if made.probe_version is None or made.probe_logprobs_BT is None:
            return None
        rows, trainer_logprobs_BT = self.asked[made.probe_version]
        self.asked = {version: asked for version, asked in self.asked.items() if version > made.probe_version}
        return gap_stats(trainer_logprobs_BT, made.probe_logprobs_BT, rows.mask_BT)
