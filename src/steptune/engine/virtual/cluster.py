"""The whole virtual cluster: replicas make groups, ranks train on them, a schedule says who waits for whom.

::

    released -> replicas -> finished -> batch of P groups -> ranks -> new version -> (weights travel) -> replicas
       ^                                                                  |
       '------- how far ahead of training groups may be released ---------'

    sync          P groups at a time, only after the update before has arrived everywhere
    one_step_off  P groups when training of the P before begins: their tokens are one update old
    async         always (max_lag + 1) x P groups ahead of what has been trained or dropped

Pure and deterministic; costs are injected.
"""

from collections import Counter
from collections.abc import Sequence
from typing import final

from steptune.core.phase import Role, SpanKind
from steptune.engine.routing import route
from steptune.engine.virtual.book import Book, Device, total
from steptune.engine.virtual.costs import Costs
from steptune.engine.virtual.event_queue import EventQueue
from steptune.engine.virtual.outcome import DeviceTime, VirtualRun, VirtualStep
from steptune.engine.virtual.ranks import rank_seconds
from steptune.engine.virtual.replica import Replica, World
from steptune.engine.virtual.routing import sizes_of
from steptune.engine.virtual.spec import ClusterSpec
from steptune.engine.virtual.tools import ToolWorkers
from steptune.engine.virtual.work import Group, Workload


def simulate(spec: ClusterSpec, workload: Workload, costs: Costs, *, num_steps: int) -> VirtualRun:
    """Run ``num_steps`` optimizer steps of ``workload`` on the virtual clock.

    Raises:
        JobError: the cluster cannot run (see `ClusterSpec.check`).
        ValueError: a cost is negative or not a finite number.
    """
    spec.check(workload.longest_row)
    return _Cluster(spec, workload, costs).run(num_steps)


@final
class _Cluster:
    """Use once."""

    def __init__(self, spec: ClusterSpec, workload: Workload, costs: Costs) -> None:
        self.spec, self.workload, self.costs = spec, workload, costs
        self.events, self.book = EventQueue(), Book()
        self.tools = ToolWorkers(spec.num_tool_workers, self.events, self.book)
        world = World(
            spec=spec,
            costs=costs,
            events=self.events,
            book=self.book,
            tools=self.tools,
            max_completion=workload.max_completion,
            on_done=self._finished,
        )
        self.replicas = [Replica(i, world) for i in range(spec.num_replicas)]
        self.ranks = [Device(role=Role.TRAINER, index=i) for i in range(spec.num_trainers)]
        self.version = 0
        self.num_released = self.num_consumed = 0
        self.finished: list[Group] = []
        self.is_training = False
        self.trainer_idle_since_s = 0.0
        self.last_end_s = 0.0
        self.num_trained = self.num_dropped = 0
        self.ends: list[tuple[float, float, Counter[int]]] = []
        """Start, end and lags of every step."""

    def run(self, num_steps: int) -> VirtualRun:
        """Run and add up."""
        batch = self.workload.groups_per_step
        self._release(batch * (1 + self.spec.max_lag))
        went_on = self.events.run(lambda: len(self.ends) >= num_steps)
        assert went_on, "a schedule in which nobody can go on"
        for replica in self.replicas:
            replica.close()
        generated = sum(replica.num_generated for replica in self.replicas)
        return VirtualRun(
            steps=tuple(self._step(number) for number in range(num_steps)),
            num_devices=self.spec.num_devices,
            num_generated=generated,
            num_trained=self.num_trained,
            num_buffered=generated - self.num_trained - self.num_dropped,
            num_dropped=self.num_dropped,
            num_recomputed=sum(replica.num_recomputed for replica in self.replicas),
            num_preempted=sum(replica.num_preempted for replica in self.replicas),
        )

    def _release(self, num_groups: int) -> None:
        groups = [self.workload.group(self.num_released + i) for i in range(num_groups)]
        by_tokens = self.spec.routing == "longest_first"
        loads = [replica.load(predicted=by_tokens) for replica in self.replicas]
        first = self.num_released % len(self.replicas)
        self.num_released += num_groups
        for group, replica in route(self.spec.routing, sizes_of(self.spec.routing, groups), loads, first):
            self.replicas[replica].submit(groups[group])

    def _finished(self, group: Group) -> None:
        self.finished.append(group)
        self._train_if_ready()

    def _train_if_ready(self) -> None:
        if self.is_training:
            return
        self._drop_old()
        batch = self._next_batch()
        if batch is None:
            return
        self.is_training = True
        self._book_ranks("rollout", SpanKind.EXPOSED_WAIT, self.trainer_idle_since_s, self.events.now_s)
        if self.spec.schedule == "one_step_off":
            self._send_weights()
            self.events.after(self.spec.sync_s, lambda: self._train_beside_rollout(batch))
        else:
            self._train(batch)

    def _drop_old(self) -> None:
        """Throw away finished groups that have become older than the bound, and make as many new ones."""
        old = [group for group in self.finished if self._lag(group) > self.spec.max_lag]
        if self.spec.schedule != "async" or not old:
            return
        self.finished = [group for group in self.finished if group not in old]
        self.num_dropped += sum(group.work.num_tokens for group in old)
        self.num_consumed += len(old)
        self._release(len(old))

    def _next_batch(self) -> list[Group] | None:
        """Return the groups to train on next, in the order of the rule, or None while they are not all done."""
        size = self.workload.groups_per_step
        in_order = self.spec.consume == "in_order"
        ready = [g for g in self.finished if not in_order or g.index < self.num_consumed + size]
        if len(ready) < size:
            return None
        batch = sorted(ready[:size], key=lambda group: group.index)
        self.finished = [group for group in self.finished if group not in batch]
        return batch

    def _train_beside_rollout(self, batch: Sequence[Group]) -> None:
        self._release(self.workload.groups_per_step)
        self._train(batch)

    def _train(self, batch: Sequence[Group]) -> None:
        lags = Counter[int]()
        for group in batch:
            lags[self._lag(group)] += len(group.work.rows)
        start_s = self.events.now_s
        own_s = rank_seconds(self.spec, self.costs, batch)
        together_s = self.spec.allreduce_s + self.costs.optimizer_s()
        slowest_s = max(own_s)
        for rank, seconds in zip(self.ranks, own_s, strict=True):
            met_s = start_s + slowest_s
            self.book.add(rank, "train", SpanKind.BUSY, start_s, start_s + seconds)
            self.book.add(rank, "train", SpanKind.EXPOSED_WAIT, start_s + seconds, met_s)
            self.book.add(rank, "train", SpanKind.BUSY, met_s, met_s + together_s)
        self.events.after(slowest_s + together_s, lambda: self._updated(batch, lags))

    def _updated(self, batch: Sequence[Group], lags: Counter[int]) -> None:
        self.version += 1
        self.num_consumed += len(batch)
        self.num_trained += sum(group.work.num_tokens for group in batch)
        self.ends.append((self.last_end_s, self.events.now_s, lags))
        self.last_end_s = self.events.now_s
        if self.spec.schedule == "one_step_off":
            self._trainer_is_free()
            return
        self._send_weights()
        if self.spec.schedule == "async":
            self._release(len(batch))
        self.events.after(self.spec.sync_s, self._synced)

    def _synced(self) -> None:
        if self.spec.schedule == "sync":
            self._release(self.workload.groups_per_step)
        self._trainer_is_free()

    def _send_weights(self) -> None:
        now_s = self.events.now_s
        self._book_ranks("weight_sync", SpanKind.BUSY, now_s, now_s + self.spec.sync_s)
        for replica in self.replicas:
            replica.update(self.version, self.spec.sync_s)

    def _trainer_is_free(self) -> None:
        self.is_training = False
        self.trainer_idle_since_s = self.events.now_s
        self._train_if_ready()

    def _book_ranks(self, phase: str, kind: SpanKind, start_s: float, end_s: float) -> None:
        for rank in self.ranks:
            self.book.add(rank, phase, kind, start_s, end_s)

    def _lag(self, group: Group) -> int:
        assert group.start_version is not None, "a finished group has begun"
        return self.version - group.start_version

    def _step(self, number: int) -> VirtualStep:
        start_s, end_s, lags = self.ends[number]
        workers = [Device(role=Role.ENVIRONMENT, index=i) for i in range(self.spec.num_tool_workers)]
        devices = [*self.ranks, *(replica.device for replica in self.replicas), *workers]
        return VirtualStep(
            step=number,
            virtual_s=end_s - start_s,
            devices=tuple(self._device_time(device, start_s, end_s) for device in devices),
            rows_by_lag=dict(sorted(lags.items())),
        )

    def _device_time(self, device: Device, start_s: float, end_s: float) -> DeviceTime:
        spent = self.book.within(device, start_s, end_s).items()
        busy_s, wait_s = total(spent, SpanKind.BUSY), total(spent, SpanKind.EXPOSED_WAIT)
        return DeviceTime(
            role=device.role,
            index=device.index,
            virtual_busy_s=busy_s,
            virtual_wait_s=wait_s,
            virtual_idle_s=end_s - start_s - busy_s - wait_s,
        )
